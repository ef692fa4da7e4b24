// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/quantize.hpp"
#include "tensor/exec.hpp"
#include "tensor/tensor.hpp"

namespace shard8::kernels {

/// Activations. Results can be quantized in the same pass (Outputs). Backward can recompute the forward result in the
/// same pass: it writes to `recomputed`, unless that asks for nothing, the bits that forward writes for the same input.

/// SwiGLU (Shazeer 2020): a (T, F) = silu(gate)·up with gate_up (T, 2F) = [gate | up] a row.
void swiglu_forward(const tensor::Exec& exec, const Outputs& a, const tensor::Tensor& gate_up);
/// dgate_up (T, 2F) of da (T, F); dgate_up.plain may be gate_up itself.
void swiglu_backward(const tensor::Exec& exec, const Outputs& dgate_up, const tensor::Tensor& da,
                     const tensor::Tensor& gate_up, const Outputs& recomputed = {});

/// GELU in the tanh form (Hendrycks & Gimpel 2016; "gelu_new"): a (T, F) of x (T, F).
void gelu_forward(const tensor::Exec& exec, const Outputs& a, const tensor::Tensor& x);
/// dx (T, F) of da (T, F); dx.plain may be x itself.
void gelu_backward(const tensor::Exec& exec, const Outputs& dx, const tensor::Tensor& da, const tensor::Tensor& x,
                   const Outputs& recomputed = {});

}  // namespace shard8::kernels
