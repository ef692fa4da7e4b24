// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

#include "kernels/libraries.hpp"
#include "tensor/exec.hpp"
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

}  // namespace shard8::kernels
