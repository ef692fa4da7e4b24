// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>

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

/// The elements that are in both boxes; Box{} if there are none.
Box intersect(const Box& a, const Box& b);

/// The part of the box in rows [first, first + count) of the tensor. If there is none it has no rows, but the box's
/// columns.
Box clip_rows(const Box& box, std::int64_t first, std::int64_t count);

/// The box that has the same elements in the transposed tensor.
Box transposed(const Box& box);

/// The same box with rows and columns counted in blocks of row_block × col_block elements. Throws Error(failed) if the
/// box begins or ends inside a block.
Box in_blocks(const Box& box, std::int64_t row_block, std::int64_t col_block);

/// Where the elements of a box lie in memory. Offsets and strides count elements.
struct StridedBox {
  Box box;
  std::int64_t offset = 0;  ///< of the box's first element, from the beginning of the memory
  std::int64_t row_stride = 0, col_stride = 1;

  /// A box in memory that holds the whole tensor, row-major, with `cols` elements a row.
  static StridedBox of(const Box& box, std::int64_t cols);

  /// The offset of element (row, col) of the tensor, which must be in the box.
  std::int64_t at(std::int64_t row, std::int64_t col) const {
    return offset + (row - box.row0) * row_stride + (col - box.col0) * col_stride;
  }
};

/// The part of memory.box that is in `box`, in the same memory.
StridedBox intersect(const StridedBox& memory, const Box& box);

/// The box of the same elements in the transposed tensor, in the same memory, where nothing moves.
StridedBox transposed(const StridedBox& memory);

/// `count` indices of one dimension: start, start + stride, ...
struct Range {
  std::int64_t start = 0;
  std::int64_t count = 0;
  std::int64_t stride = 1;
};

/// Divides the elements [first, first + count) of a row-major array, which must be in it, into few boxes. Calls
/// visit(ranges, elements) for each box in order, with one range for each dimension and the number of elements. In each
/// box row-major order is the array's order. An array without dimensions has one element and a box without ranges.
void for_each_box(std::span<const std::int64_t> shape, std::int64_t first, std::int64_t count,
                  const std::function<void(std::span<const Range>, std::int64_t)>& visit);

}  // namespace shard8::io
