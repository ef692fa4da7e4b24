// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tensor/exec.hpp"
#include "tensor/tensor.hpp"

namespace shard8::kernels {

/// Vocabulary-parallel softmax cross entropy (Shoeybi et al. 2019), in parts that each compute on one rank. Between the
/// parts the caller reduces over the tensor group, as each part says.
/// In all of them: logits (T, V_local) fp32 has the columns [first_row, first_row + valid) of the vocabulary; columns
/// from `valid` on are padding and count as −inf. row_max (T), sums (2, T) and weights (T) are fp32. targets (T) i32
/// are token numbers in the whole vocabulary. A token of weight 0 is padding: its loss and its gradient are 0, whatever
/// its logits are. A tensor with another dtype or count, or valid > V_local, is an Error(failed).

/// Writes row_max (T) = the largest logit of each row over the valid columns; −inf if there are none. The caller then
/// reduces row_max over the tensor group by MAX.
void cross_entropy_max(const tensor::Exec& exec, const tensor::Tensor& row_max, const tensor::Tensor& logits,
                       std::int64_t valid);

/// Writes sums (2, T), given the reduced row_max. Row 0 is Σ exp(logit − row_max) over the valid columns. Row 1 is the
/// target's logit − row_max if this rank owns the target, else 0. The caller then reduces sums over the tensor group by
/// SUM.
void cross_entropy_sums(const tensor::Exec& exec, const tensor::Tensor& sums, const tensor::Tensor& logits,
                        const tensor::Tensor& row_max, const tensor::Tensor& targets, std::int64_t first_row,
                        std::int64_t valid);

/// total += Σ_t weight·(log(row 0) − row 1) of the reduced sums, in double and in a fixed order. total is one double,
/// stored as 8 bytes of u8. Every rank of the tensor group computes the same total.
void cross_entropy_loss(const tensor::Exec& exec, const tensor::Tensor& total, const tensor::Tensor& sums,
                        const tensor::Tensor& weights);

/// Writes dlogits (T, V_local), fp32 or bf16: scale·weight·(p − t) with p = exp(logit − row_max)/(row 0 of sums), and t
/// = 1 in the target's column, else 0. Padding columns become 0. row_max and sums are the reduced ones. dlogits may be
/// logits itself if it is fp32.
void cross_entropy_backward(const tensor::Exec& exec, const tensor::Tensor& dlogits, const tensor::Tensor& logits,
                            const tensor::Tensor& row_max, const tensor::Tensor& sums, const tensor::Tensor& targets,
                            const tensor::Tensor& weights, std::int64_t first_row, std::int64_t valid, float scale);

}  // namespace shard8::kernels
