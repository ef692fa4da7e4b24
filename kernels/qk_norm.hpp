// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/exec.hpp"
#include "tensor/tensor.hpp"

namespace shard8::kernels {

/// RMSNorm of the queries and keys of each head, and RoPE of the result, in one pass (Hugging Face's Qwen3Attention).
/// A row of qkv is [q heads | k heads | v heads] of one token, each head_dim wide; the v heads are neither read nor
/// written. T = tokens. qkv, unnormed and the weights have one dtype, fp32 or bf16, the compute dtype; table and the
/// gradients of the weights are fp32. A tensor with another dtype or count is an Error(failed).

/// The query heads and key heads of a row.
struct QkHeads {
  std::int64_t queries = 0, keys = 0;
  std::int64_t all() const { return queries + keys; }
};

/// Two vectors (head_dim): weights of the norm, or their gradients. All query heads share q, all key heads share k.
struct QkWeights {
  tensor::Tensor q, k;
};

/// For each query and key head x of qkv (T, columns of all heads): copies x to unnormed (T, heads.all() · head_dim),
/// which backward reads, computes rmsnorm_forward of x with the head's weight and eps, and writes the result, rotated
/// as rope_forward does, in place of x. table (2, seq, head_dim/2) is one that rope_table filled. The result of the
/// norm is rounded to the compute dtype before the rotation.
void qk_norm_rope_forward(const tensor::Exec& exec, const tensor::Tensor& qkv, const tensor::Tensor& unnormed,
                          const tensor::Tensor& table, const QkWeights& weights, const QkHeads& heads, float eps);

/// Replaces the gradient of each query and key head that forward wrote, in dqkv, by the gradient of the head before
/// the norm: rope_backward, then rmsnorm_backward. Adds the gradients of the weights, summed over tokens and heads in a
/// fixed order, to dweights. The other arguments are those of forward. `workspace`: u8, at least
/// norm_workspace_bytes(T, head_dim) of kernels/norm.hpp.
void qk_norm_rope_backward(const tensor::Exec& exec, const tensor::Tensor& dqkv, const QkWeights& dweights,
                           const tensor::Tensor& unnormed, const tensor::Tensor& table, const QkWeights& weights,
                           const QkHeads& heads, float eps, const tensor::Tensor& workspace);

}  // namespace shard8::kernels
