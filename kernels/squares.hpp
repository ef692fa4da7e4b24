// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/exact_sum.hpp"
#include "tensor/exec.hpp"
#include "tensor/tensor.hpp"

/// Sums of squares that do not depend on how rows are cut over ranks. Each row is cut into segments of kSquareSegment
/// elements; the last segment of a row may be shorter. The squares of a segment are added in double, in an order that
/// depends on its length alone and differs between hosts and devices. Segments are added without rounding
/// (base::ExactSum), so the order of rows, threads, parameters and ranks changes no bit.
namespace shard8::kernels {

inline constexpr std::int64_t kSquareSegment = 1024;

/// Bytes of a total, the words of a base::ExactSum, as u8.
inline constexpr std::int64_t kExactTotalBytes = sizeof(base::ExactSum);

/// total += Σ x², for x (R, C) fp32. total is kExactTotalBytes of u8; the caller clears it first. At most
/// base::ExactSum::kMostTerms segments may be added to a total. Other bytes of total, or more segments in one call, are
/// an Error(failed).
void sum_of_squares(const tensor::Exec& exec, const tensor::Tensor& total, const tensor::Tensor& x);

/// How many segments a matrix (R, C) has.
constexpr std::int64_t square_segments(std::int64_t rows, std::int64_t cols) {
  return rows * ((cols + kSquareSegment - 1) / kSquareSegment);
}
/// parts[s] = Σ x² over segment s of x (R, C) fp32; segments are numbered along the first row, then along the second,
/// and so on. parts is u8 memory of square_segments(R, C) doubles; another size is an Error(failed).
void square_parts(const tensor::Exec& exec, const tensor::Tensor& parts, const tensor::Tensor& x);
/// total += the sum of all `parts`, u8 memory of any number of doubles. total and limits as in sum_of_squares().
void add_square_parts(const tensor::Exec& exec, const tensor::Tensor& total, const tensor::Tensor& parts);

}  // namespace shard8::kernels
