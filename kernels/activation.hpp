// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/quantize.hpp"
#include "tensor/exec.hpp"
#include "tensor/tensor.hpp"

namespace shard8::kernels {

/// Activation functions. All tensors of a call have one dtype, fp32 or bf16. Formulas are computed in fp32. `Outputs`
/// says where a result is written: as it is, its amax, its FP8 cast.
/// Backward can also recompute the result of forward, in the same pass where it can. `recomputed` says where to write
/// the recomputed result; an empty `recomputed` asks for nothing. The recomputed result has the same bits as the result
/// of forward for the same input.
/// A tensor with another dtype or count than stated is an Error(failed).

/// SwiGLU (Shazeer 2020): writes a (T, F) = silu(gate)·up. gate_up is (T, 2F); each row is [gate | up].
void swiglu_forward(const tensor::Exec& exec, const Outputs& a, const tensor::Tensor& gate_up);
/// Writes dgate_up (T, 2F), the gradient of gate_up, given da (T, F), the gradient of a. dgate_up.plain may be gate_up
/// itself. `recomputed` receives a (T, F).
void swiglu_backward(const tensor::Exec& exec, const Outputs& dgate_up, const tensor::Tensor& da,
                     const tensor::Tensor& gate_up, const Outputs& recomputed = {});

/// GELU in the tanh form (Hendrycks & Gimpel 2016; "gelu_new"): writes a (T, F) = gelu(x), with x (T, F).
void gelu_forward(const tensor::Exec& exec, const Outputs& a, const tensor::Tensor& x);
/// Writes dx (T, F), the gradient of x, given da (T, F), the gradient of a. dx.plain may be x itself. `recomputed`
/// receives a (T, F).
void gelu_backward(const tensor::Exec& exec, const Outputs& dx, const tensor::Tensor& da, const tensor::Tensor& x,
                   const Outputs& recomputed = {});

}  // namespace shard8::kernels
