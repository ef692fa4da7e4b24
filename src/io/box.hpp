// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace shard8::io {

/// Rows [row0, row0 + rows) and columns [col0, col0 + cols) of a tensor seen as a matrix: a tensor
/// of shape (R, C) is R × C, one of shape (n) is n × 1, a scalar is 1 × 1. No extent is negative.
struct Box {
  std::int64_t row0 = 0;
  std::int64_t rows = 0;
  std::int64_t col0 = 0;
  std::int64_t cols = 0;

  std::int64_t count() const { return rows * cols; }
  bool empty() const { return rows == 0 || cols == 0; }
  /// The box is all of a tensor (tensor_rows, tensor_cols).
  bool whole(std::int64_t tensor_rows, std::int64_t tensor_cols) const {
    return row0 == 0 && col0 == 0 && rows == tensor_rows && cols == tensor_cols;
  }
  bool operator==(const Box&) const = default;
};

/// The elements of both; Box{} if there are none.
Box intersect(const Box& a, const Box& b);

/// The rows [first, first + count) of a tensor that are in the box; without rows, but with the box's columns, if
/// there are none.
Box clip_rows(const Box& box, std::int64_t first, std::int64_t count);

/// The same elements in the transposed tensor.
Box transposed(const Box& box);

/// The same elements of a tensor that is counted in blocks of row_block × col_block elements. Throws
/// Error(failed) if the box begins or ends inside a block.
Box in_blocks(const Box& box, std::int64_t row_block, std::int64_t col_block);

/// Where the elements of a box lie in memory: element (row, col) of the tensor is at() elements from the
/// beginning.
struct StridedBox {
  Box box;
  std::int64_t offset = 0;  ///< of the box's first element
  std::int64_t row_stride = 0, col_stride = 1;

  /// A box of a row-major tensor of which every row has `cols` elements.
  static StridedBox of(const Box& box, std::int64_t cols);

  std::int64_t at(std::int64_t row, std::int64_t col) const {
    return offset + (row - box.row0) * row_stride + (col - box.col0) * col_stride;
  }
};

/// The elements of `memory` that are in `box`, where they lie.
StridedBox intersect(const StridedBox& memory, const Box& box);

/// The same elements of the transposed tensor, where they lie.
StridedBox transposed(const StridedBox& memory);

}  // namespace shard8::io
