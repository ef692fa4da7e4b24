// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tensor/exec.hpp"
#include "tensor/tensor.hpp"

namespace shard8::kernels {

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

}  // namespace shard8::kernels
