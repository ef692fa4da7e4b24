// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/quantize.hpp"
#include "tensor/exec.hpp"
#include "tensor/tensor.hpp"

namespace shard8::kernels {

/// What these make can be quantized in the same pass (Outputs). What backward leaves in `again`, unless that
/// asks for nothing, is what forward makes of the same input, bit by bit.

/// SwiGLU (Shazeer 2020): a (T, F) = silu(gate)·up with gate_up (T, 2F) = [gate | up] a row.
void swiglu_forward(const tensor::Exec& exec, const Outputs& a, const tensor::Tensor& gate_up);
/// dgate_up (T, 2F) of da (T, F); dgate_up.plain may be gate_up itself.
void swiglu_backward(const tensor::Exec& exec, const Outputs& dgate_up, const tensor::Tensor& da,
                     const tensor::Tensor& gate_up, const Outputs& again = {});

/// GELU in the tanh form (Hendrycks & Gimpel 2016; "gelu_new"): a (T, F) of x (T, F).
void gelu_forward(const tensor::Exec& exec, const Outputs& a, const tensor::Tensor& x);
/// dx (T, F) of da (T, F); dx.plain may be x itself.
void gelu_backward(const tensor::Exec& exec, const Outputs& dx, const tensor::Tensor& da, const tensor::Tensor& x,
                   const Outputs& again = {});

}  // namespace shard8::kernels
