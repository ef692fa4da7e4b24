// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "kernels/attention_shape.hpp"
#include "kernels/workspace.hpp"
#include "tensor/exec.hpp"
#include "tensor/tensor.hpp"

namespace shard8::kernels {

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
/// scores of all heads. On devices: kernels/planned/sdpa_parts.hpp says how many, and `threads` is ignored. The
/// function needs no device.
std::size_t attention_workspace_bytes(const AttentionShape& shape, int threads);

}  // namespace shard8::kernels
