// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/exec.hpp"
#include "tensor/tensor.hpp"

namespace shard8::kernels {

/// A table (V_local, H) holds the vocabulary rows [first_row, first_row + valid_rows); further rows
/// are padding. y (T, H) = the table's row of each token. tokens (T) i32 are numbers in the whole vocabulary; a token
/// whose row another rank owns gives a row of zeros.
void embedding_forward(const tensor::Exec& exec, const tensor::Tensor& y, const tensor::Tensor& table,
                       const tensor::Tensor& tokens, std::int64_t first_row, std::int64_t valid_rows);

/// dtable (V_local, H) fp32 += rows of dy (T, H). The sum of each table row is in token order.
/// `workspace`: u8, embedding_workspace_bytes(T, V_local).
void embedding_backward(const tensor::Exec& exec, const tensor::Tensor& dtable, const tensor::Tensor& dy,
                        const tensor::Tensor& tokens, std::int64_t first_row, std::int64_t valid_rows,
                        const tensor::Tensor& workspace);
std::size_t embedding_workspace_bytes(std::int64_t tokens, std::int64_t local_rows);

/// Learned positions: x (T_local, H) += table (≥ seq, H) row of each token's position; x's first
/// token is number first_token of the micro-batch, positions are the number mod seq.
void position_forward(const tensor::Exec& exec, const tensor::Tensor& x, const tensor::Tensor& table,
                      std::int64_t first_token, std::int64_t seq);
/// dtable (≥ seq, H) fp32 += Σ of dx (T_local, H) rows of that position, in token order.
void position_backward(const tensor::Exec& exec, const tensor::Tensor& dtable, const tensor::Tensor& dx,
                       std::int64_t first_token, std::int64_t seq);

}  // namespace shard8::kernels
