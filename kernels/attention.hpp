// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

#include "kernels/libraries.hpp"
#include "tensor/runtime.hpp"
#include "tensor/tensor.hpp"

namespace shard8::kernels {

/// The extents of one call of attention. heads and kv_heads count the heads of one tensor rank; heads must be a
/// multiple of kv_heads. Query heads h·(heads/kv_heads) to (h+1)·(heads/kv_heads) − 1 share kv head h. There are T =
/// batch·seq tokens; the sequences follow one another.
struct AttentionShape {
  std::int64_t batch = 0, seq = 0, heads = 0, kv_heads = 0, head_dim = 0;
  /// Whether backward must give the same bits from run to run. On devices this takes memory and time; if false,
  /// backward may add in any order. Forward, and both directions on hosts, give the same bits whatever this says.
  bool deterministic = true;

  auto operator<=>(const AttentionShape&) const = default;
  std::int64_t tokens() const { return batch * seq; }
  /// Elements of one row of qkv: [q heads | k heads | v heads] of one token.
  std::int64_t qkv_columns() const { return (heads + 2 * kv_heads) * head_dim; }
};

/// Causal scaled dot-product attention with grouped queries and scale 1/sqrt(head_dim), one block of query rows at a
/// time (FlashAttention, Dao et al. 2022). Writes o (T, heads·head_dim), and lse (batch, heads, seq) fp32: the natural
/// logarithm of the sum of exp(scaled score) over the keys that a query sees. Reads qkv (T, (heads +
/// 2·kv_heads)·head_dim); each row is [q heads | k heads | v heads]. o and qkv have one dtype, fp32 or bf16.
/// Scores and sums are fp32. Hosts, and devices with fp32 operands, keep everything between input and output in fp32.
/// On NVIDIA's devices cuDNN computes bf16 for the shapes that it supports; it rounds probabilities to bf16 before it
/// multiplies them with v. Where cuDNN does not support the shape, and for fp32, the device runs
/// kernels/kokkos/portable.hpp, which takes head_dim up to 256.
/// workspace.memory must have attention_workspace_bytes(shape, threads of exec) bytes; on a device bf16 needs
/// workspace.libraries as well. Throws Error(failed) for counts, a dtype, a shape or a workspace other than stated.
void attention_forward(const tensor::Exec& exec, const tensor::Tensor& o, const tensor::Tensor& lse,
                       const tensor::Tensor& qkv, const AttentionShape& shape, const Workspace& workspace);

/// Writes dqkv, with the shape of qkv, given dout (T, heads·head_dim), the gradient of o. o and lse are the results of
/// forward. Probabilities are recomputed from qkv and lse. Sums have a fixed order, whatever the number of threads;
/// only cuDNN with a shape that is not deterministic adds in any order. Dtypes, workspace and errors as in forward.
void attention_backward(const tensor::Exec& exec, const tensor::Tensor& dqkv, const tensor::Tensor& dout,
                        const tensor::Tensor& o, const tensor::Tensor& qkv, const tensor::Tensor& lse,
                        const AttentionShape& shape, const Workspace& workspace);

/// Bytes of u8 workspace, enough for either direction. On hosts: a few blocks of rows for each of `threads`, never the
/// scores of all heads. On devices: kernels/planned/device_memory.hpp says how many, and `threads` is ignored. The
/// function needs no device.
std::size_t attention_workspace_bytes(const AttentionShape& shape, int threads);

/// Rotary position embedding in the rotate-half form (Su et al. 2021, as in Hugging Face's Llama): the two halves (x1,
/// x2) of each head become (x1·cos − x2·sin, x2·cos + x1·sin).

/// Fills table (2, seq, head_dim/2) fp32: table[0] is the cosine and table[1] the sine of position ·
/// theta^(−2i/head_dim). The inverse frequencies and the angles are rounded to fp32, as in the reference. Another rank
/// or first extent is an Error(failed).
void rope_table(const tensor::Exec& exec, const tensor::Tensor& table, float theta);

/// Rotates, in place, the first `rotated_heads` heads (queries, then keys) of each row of qkv (T, all_heads ·
/// head_dim), fp32 or bf16. seq and head_dim are those of table, which rope_table filled. Token t of T has position t
/// mod seq. More heads than a row has are an Error(failed).
void rope_forward(const tensor::Exec& exec, const tensor::Tensor& qkv, const tensor::Tensor& table,
                  std::int64_t rotated_heads);
/// Rotates the gradient dqkv, in place, by the inverse rotation.
void rope_backward(const tensor::Exec& exec, const tensor::Tensor& dqkv, const tensor::Tensor& table,
                   std::int64_t rotated_heads);

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
/// norm_workspace_bytes(T, head_dim) of kernels/elementwise.hpp.
void qk_norm_rope_backward(const tensor::Exec& exec, const tensor::Tensor& dqkv, const QkWeights& dweights,
                           const tensor::Tensor& unnormed, const tensor::Tensor& table, const QkWeights& weights,
                           const QkHeads& heads, float eps, const tensor::Tensor& workspace);

}  // namespace shard8::kernels
