// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/runtime.hpp"
#include "tensor/tensor.hpp"

namespace shard8::kernels {

/// Vocabulary-parallel softmax cross entropy (Shoeybi et al. 2019), in parts that each compute on one rank. Between the
/// parts the caller reduces over the tensor group, as each part says.
/// In all functions of the cross entropy: logits (T, V_local) fp32 has the columns [first_row, first_row + valid) of
/// the vocabulary; columns from `valid` on are padding and count as −inf. row_max (T), sums (2, T) and weights (T) are
/// fp32. targets (T) i32 are token numbers in the whole vocabulary. A token of weight 0 is padding: its loss and its
/// gradient are 0, whatever its logits are. A tensor with another dtype or count, or valid > V_local, is an
/// Error(failed).

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

/// Writes y (T, H): for each token its row of the vocabulary's embedding. table (V_local, H) has the rows [first_row,
/// first_row + valid_rows) of the vocabulary; its further rows are padding. tokens (T) i32 are numbers in the whole
/// vocabulary. A token whose row is not in this rank's table gives a row of zeros. y and table have one dtype, fp32 or
/// bf16. Another dtype or count than stated, or valid_rows > V_local, is an Error(failed).
void embedding_forward(const tensor::Exec& exec, const tensor::Tensor& y, const tensor::Tensor& table,
                       const tensor::Tensor& tokens, std::int64_t first_row, std::int64_t valid_rows);

/// dtable (V_local, H) fp32 += rows of dy (T, H), fp32 or bf16: each token's row is added to the row of its token
/// number. Tokens of other ranks are left out. Rows are added in the order of the tokens, so results do not depend on
/// threads. `workspace`: u8, at least embedding_workspace_bytes(T, valid_rows).
void embedding_backward(const tensor::Exec& exec, const tensor::Tensor& dtable, const tensor::Tensor& dy,
                        const tensor::Tensor& tokens, std::int64_t first_row, std::int64_t valid_rows,
                        const tensor::Tensor& workspace);
/// Bytes of workspace of embedding_backward for `tokens` tokens and a table of `local_rows` rows.
std::size_t embedding_workspace_bytes(std::int64_t tokens, std::int64_t local_rows, bool device = tensor::kDevice);

/// Learned positions: x (T_local, H) += the row of table (at least seq rows, H) of each token's position. Row t of x is
/// token first_token + t of the micro-batch; its position is (first_token + t) mod seq. x and table have one dtype,
/// fp32 or bf16; the sum is rounded once. A table of fewer rows or another H is an Error(failed).
void position_forward(const tensor::Exec& exec, const tensor::Tensor& x, const tensor::Tensor& table,
                      std::int64_t first_token, std::int64_t seq);
/// dtable (at least seq rows, H) fp32 += rows of dx (T_local, H), fp32 or bf16: each token's row is added to the row of
/// its position, in the order of the tokens.
void position_backward(const tensor::Exec& exec, const tensor::Tensor& dtable, const tensor::Tensor& dx,
                       std::int64_t first_token, std::int64_t seq);

}  // namespace shard8::kernels
