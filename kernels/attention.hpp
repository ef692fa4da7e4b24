// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "kernels/attention_shape.hpp"
#include "kernels/workspace.hpp"
#include "tensor/exec.hpp"
#include "tensor/tensor.hpp"

namespace shard8::kernels {

/// Causal scaled dot-product attention with grouped queries, scale 1/sqrt(head_dim), in fp32 over
/// blocks of query rows (FlashAttention, Dao et al. 2022): o (T, heads·head_dim) and the
/// log-sum-exp lse (batch, heads, seq) fp32 of
/// qkv (T, (heads + 2·kv_heads)·head_dim) = [q heads | k heads | v heads] a row.
/// On NVIDIA's devices cuDNN computes bf16 where it takes the shape (it rounds probabilities to bf16 before it
/// multiplies them); kernels/kokkos/portable.hpp computes all else.
void attention_forward(const tensor::Exec& exec, const tensor::Tensor& o, const tensor::Tensor& lse,
                       const tensor::Tensor& qkv, const AttentionShape& shape, const Workspace& workspace);

/// dqkv (as qkv) of dout (T, heads·head_dim). Probabilities are recomputed from qkv and lse. Sums have a fixed order
/// for any number of threads, unless the shape says not deterministic.
void attention_backward(const tensor::Exec& exec, const tensor::Tensor& dqkv, const tensor::Tensor& dout,
                        const tensor::Tensor& o, const tensor::Tensor& qkv, const tensor::Tensor& lse,
                        const AttentionShape& shape, const Workspace& workspace);

/// Bytes of u8 workspace, enough for either direction. On hosts a few blocks of rows for each of `threads`, never the
/// scores of all heads; on devices as kernels/cuda/sdpa.hpp says. No device is needed to ask.
std::size_t attention_workspace_bytes(const AttentionShape& shape, int threads);

}  // namespace shard8::kernels
