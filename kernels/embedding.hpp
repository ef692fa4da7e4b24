// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/exec.hpp"
#include "tensor/tensor.hpp"

namespace shard8::kernels {

/// Writes y (T, H): for each token its row of the vocabulary's embedding. table (V_local, H) has the rows [first_row,
/// first_row + valid_rows) of the vocabulary; its further rows are padding. tokens (T) i32 are numbers in the whole
/// vocabulary. A token whose row is not in this rank's table gives a row of zeros. y and table have one dtype, fp32 or
/// bf16. valid_rows > V_local is an Error(failed), and so are other counts.
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
