// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention_shape.hpp"
#include "tensor/exec.hpp"
#include "tensor/tensor.hpp"

namespace shard8::kernels {

/// Attention as in kernels/attention.hpp by Kokkos teams, fp32 or bf16, head_dim up to 256, in fp32
/// throughout: for what a vendor's library does not take. A team has a block of queries, or of keys
/// and values, in its scratch and passes over the other ones, so that no scores are kept and there is
/// no workspace. Every sum is in an order of its own: the same bits from run to run, whatever
/// shape.deterministic says.
void portable_attention_forward(const tensor::Exec& exec, const tensor::Tensor& o, const tensor::Tensor& lse,
                                const tensor::Tensor& qkv, const AttentionShape& shape);
void portable_attention_backward(const tensor::Exec& exec, const tensor::Tensor& dqkv, const tensor::Tensor& dout,
                                 const tensor::Tensor& o, const tensor::Tensor& qkv, const tensor::Tensor& lse,
                                 const AttentionShape& shape);

}  // namespace shard8::kernels
