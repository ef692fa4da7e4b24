// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tensor/tensor.hpp"

namespace shard8::tensor {

/// Which elements of an FP8 matrix (R, C) share an inverse scale, and the shape of scale_inv.
enum class Scaling : std::uint8_t {
  none,        ///< a plain fp32 or bf16 matrix without scales
  tensor,      ///< one scale for the whole matrix: (1) fp32
  row_128,     ///< 1×128 blocks: (R, C/128) fp32
  column_128,  ///< 128×1 blocks: (R/128, C) fp32
  tile_128,    ///< 128×128 blocks: (R/128, C/128) fp32
  row_32,      ///< 1×32 blocks: (R, C/32) e8m0
  column_32,   ///< 32×1 blocks: (R/32, C) e8m0
};

/// A matrix (R, C) as a product reads it: element (r, c) is data(r, c) times the inverse scale of its block, times the
/// inverse scale of the matrix if there is a second level.
struct Operand {
  Tensor data;       ///< (R, C): fp32 or bf16, or e4m3 or e5m2 with scales
  Tensor scale_inv;  ///< inverse scales, laid out for (R, C) even if data is transposed; empty for Scaling::none
  /// Second level of inverse scales: one for the whole matrix, in the memory of `data`. Null: there is one level. No
  /// product reads a second level yet.
  const float* matrix_scale_inv = nullptr;
  Scaling scaling = Scaling::none;
  /// Whether data is stored transposed, as (C, R): element (r, c) of the matrix is then data(c, r). Only for e4m3 and
  /// e5m2, on devices, where products read such operands only with the summed dimension contiguous.
  bool transposed = false;

  Operand() = default;
  Operand(const Tensor& plain) : data(plain) {}  // NOLINT: a plain matrix is an operand
  Operand(const Tensor& values, const Tensor& inverse_scales, Scaling how)
      : data(values), scale_inv(inverse_scales), scaling(how) {}

  bool empty() const { return data.empty(); }
  /// R and C, however data is stored.
  std::int64_t rows() const { return transposed ? data.cols() : data.rows(); }
  std::int64_t cols() const { return transposed ? data.rows() : data.cols(); }
  /// Rows first … first + count − 1, in the same memory: whole blocks of rows of an operand that is not transposed,
  /// else Error(failed).
  Operand slice(std::int64_t first, std::int64_t count) const;
};

/// The shape of scale_inv for a matrix (rows, cols); (0) for Scaling::none. Throws Error(failed) if rows or cols are
/// not whole blocks.
Shape scale_shape(Scaling scaling, std::int64_t rows, std::int64_t cols);
/// The dtype of scale_inv: e8m0 for blocks of 32, else fp32.
DType scale_dtype(Scaling scaling);
/// Rows and columns of a block; 1 for Scaling::none and Scaling::tensor.
std::int64_t block_rows(Scaling scaling);
std::int64_t block_cols(Scaling scaling);
/// Bytes of the inverse scales of a matrix of `elements` elements, which must be whole blocks.
std::int64_t scale_bytes(Scaling scaling, std::int64_t elements);
/// Name for messages: "none", "tensor", "1x128", "128x1", ...
std::string_view name_of(Scaling scaling);

}  // namespace shard8::tensor
