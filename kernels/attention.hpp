// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "kernels/attention_shape.hpp"
#include "kernels/workspace.hpp"
#include "tensor/exec.hpp"
#include "tensor/tensor.hpp"

namespace shard8::kernels {

/// Causal scaled dot-product attention with grouped queries, scale 1/sqrt(head_dim), in fp32 over
/// blocks of query rows (FlashAttention, Dao et al. 2022): o (T, heads·head_dim) and the
/// log-sum-exp lse (batch, heads, seq) fp32 of
/// qkv (T, (heads + 2·kv_heads)·head_dim) = [q heads | k heads | v heads] a row.
/// On NVIDIA's devices by cuDNN in bf16 (probabilities are rounded to bf16 before they are multiplied)
/// where it takes the shape, else by kernels/kokkos/portable.hpp.
void attention_forward(const tensor::Exec& exec, const tensor::Tensor& o, const tensor::Tensor& lse,
                       const tensor::Tensor& qkv, const AttentionShape& shape, const Workspace& workspace);

/// dqkv of dout (T, heads·head_dim); probabilities are computed again from qkv and lse.
/// Sums in a fixed order, whatever the number of threads, unless the shape says not deterministic.
void attention_backward(const tensor::Exec& exec, const tensor::Tensor& dqkv, const tensor::Tensor& dout,
                        const tensor::Tensor& o, const tensor::Tensor& qkv, const tensor::Tensor& lse,
                        const AttentionShape& shape, const Workspace& workspace);

/// u8 workspace for either direction. On hosts a few blocks of rows a thread, never all heads' scores;
/// on devices as kernels/cuda/sdpa.hpp says. Known without a device.
std::size_t attention_workspace_bytes(const AttentionShape& shape, int threads);

/// What computes attention of the shape, for a line of a report: known once it was called.
std::string attention_description(const AttentionShape& shape, tensor::DType dtype, const Workspace& workspace);

/// FLOPs of the matrix products (causal: half of the square) of forward; backward is 2.5 times that.
inline double attention_flops(const AttentionShape& shape) {
  const auto count = [](std::int64_t n) { return static_cast<double>(n); };
  // Two products of seq²/2 pairs by head_dim, two operations each.
  return 2.0 * count(shape.batch) * count(shape.heads) * count(shape.seq) * count(shape.seq) * count(shape.head_dim);
}

}  // namespace shard8::kernels
