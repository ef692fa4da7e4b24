// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/exec.hpp"
#include "tensor/tensor.hpp"

namespace shard8::kernels {

/// Heads are those of one tensor rank; tokens T = batch · seq, sequences one after the other.
struct AttentionShape {
  std::int64_t batch = 0, seq = 0, heads = 0, kv_heads = 0, head_dim = 0;
};

/// Causal scaled dot-product attention with grouped queries, scale 1/sqrt(head_dim), in fp32 over
/// blocks of query rows (FlashAttention, Dao et al. 2022): o (T, heads·head_dim) and the
/// log-sum-exp lse (batch, heads, seq) fp32 of
/// qkv (T, (heads + 2·kv_heads)·head_dim) = [q heads | k heads | v heads] a row.
void attention_forward(const tensor::Exec& exec, const tensor::Tensor& o, const tensor::Tensor& lse,
                       const tensor::Tensor& qkv, const AttentionShape& shape, const tensor::Tensor& workspace);

/// dqkv of dout (T, heads·head_dim); probabilities are computed again from qkv and lse.
/// Sums in a fixed order, whatever the number of threads.
void attention_backward(const tensor::Exec& exec, const tensor::Tensor& dqkv, const tensor::Tensor& dout,
                        const tensor::Tensor& o, const tensor::Tensor& qkv, const tensor::Tensor& lse,
                        const AttentionShape& shape, const tensor::Tensor& workspace);

/// u8 workspace for either direction: a few blocks of rows a thread, never all heads' scores.
std::size_t attention_workspace_bytes(const AttentionShape& shape, int threads);

/// FLOPs of the matrix products (causal: half of the square) of forward; backward is 2.5 times that.
double attention_flops(const AttentionShape& shape);

}  // namespace shard8::kernels
