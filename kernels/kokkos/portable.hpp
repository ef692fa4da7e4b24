// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention.hpp"
#include "kernels/quantize.hpp"
#include "tensor/operand.hpp"
#include "tensor/runtime.hpp"
#include "tensor/tensor.hpp"

/// The portable forms of operators that NVIDIA's libraries or CUDA kernels replace on a GPU. kernels/device chooses
/// between the two forms; where the replacement does not take the arguments, kernels/device calls the portable forms.
namespace shard8::kernels {

/// The portable forms of rmsnorm_forward and layernorm_forward (kernels/elementwise.hpp). x of layernorm_forward must be
/// written, not partial sums. On hosts x of rmsnorm_forward must be written, too.
void portable_rmsnorm_forward(const tensor::Exec& exec, const Outputs& y, const tensor::Tensor& rstd,
                              const tensor::SumOfPartials& x, const tensor::Tensor& weight, float eps);
void portable_layernorm_forward(const tensor::Exec& exec, const Outputs& y, const tensor::Tensor& mean,
                                const tensor::Tensor& rstd, const tensor::Tensor& x, const tensor::Tensor& weight,
                                const tensor::Tensor& bias, float eps);

/// transposed (C, R) = cast (R, C)ᵀ of bytes, the last part of an operator that writes Outputs. The kernel's label is
/// "shard8::kernels::" + operator_name + "_transpose".
void transpose_cast(const tensor::Exec& exec, const char* operator_name, const tensor::Tensor& transposed,
                    const tensor::Tensor& cast);

/// Attention as in kernels/attention.hpp, fp32 or bf16, head_dim up to 256, in fp32 throughout. A team has a block of
/// queries, or of keys and values, in its scratch and passes over the others, so scores are not stored and there is no
/// workspace. Every sum has a fixed order: the same bits from run to run, whatever shape.deterministic says.
void portable_attention_forward(const tensor::Exec& exec, const tensor::Tensor& o, const tensor::Tensor& lse,
                                const tensor::Tensor& qkv, const AttentionShape& shape);
void portable_attention_backward(const tensor::Exec& exec, const tensor::Tensor& dqkv, const tensor::Tensor& dout,
                                 const tensor::Tensor& o, const tensor::Tensor& qkv, const tensor::Tensor& lse,
                                 const AttentionShape& shape);

}  // namespace shard8::kernels
