// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tensor/exec.hpp"
#include "tensor/tensor.hpp"

namespace shard8::kernels {

/// Rotary position embedding in the rotate-half form (Su et al. 2021, as Hugging Face Llama):
/// (x1, x2) → (x1·cos − x2·sin, x2·cos + x1·sin) for the two halves of each head.

/// Fills table (2, seq, head_dim/2) fp32 with cos and sin of position · theta^(−2i/head_dim),
/// angles computed in fp32 as the reference does (inverse frequencies in fp32, product in fp32).
void rope_table(const tensor::Exec& exec, const tensor::Tensor& table, float theta);

/// Rotates in place the first `rotated_heads` heads (queries then keys) of each row of
/// qkv (T, all_heads · head_dim). Token t of T has position t mod seq.
void rope_forward(const tensor::Exec& exec, const tensor::Tensor& qkv, const tensor::Tensor& table,
                  std::int64_t rotated_heads);
/// The inverse rotation, for gradients.
void rope_backward(const tensor::Exec& exec, const tensor::Tensor& dqkv, const tensor::Tensor& table,
                   std::int64_t rotated_heads);

}  // namespace shard8::kernels
