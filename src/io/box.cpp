// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "io/box.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace shard8::io {

Box intersect(const Box& a, const Box& b) {
  const std::int64_t row = std::max(a.row0, b.row0), row_end = std::min(a.row0 + a.rows, b.row0 + b.rows);
  const std::int64_t col = std::max(a.col0, b.col0), col_end = std::min(a.col0 + a.cols, b.col0 + b.cols);
  if (row >= row_end || col >= col_end) return {};
  return {row, row_end - row, col, col_end - col};
}

Box clip_rows(const Box& box, std::int64_t first, std::int64_t count) {
  const std::int64_t begin = std::clamp(first, box.row0, box.row0 + box.rows);
  const std::int64_t end = std::clamp(first + count, begin, box.row0 + box.rows);
  return {begin, end - begin, box.col0, box.cols};
}

Box transposed(const Box& box) { return {box.col0, box.cols, box.row0, box.rows}; }

Box in_blocks(const Box& box, std::int64_t row_block, std::int64_t col_block) {
  SHARD8_REQUIRE(
      box.row0 % row_block == 0 && box.rows % row_block == 0 && box.col0 % col_block == 0 && box.cols % col_block == 0,
      "{} rows from {} and {} columns from {} are not whole blocks of {} x {}", box.rows, box.row0, box.cols, box.col0,
      row_block, col_block);
  return {box.row0 / row_block, box.rows / row_block, box.col0 / col_block, box.cols / col_block};
}

StridedBox StridedBox::of(const Box& box, std::int64_t cols) { return {box, box.row0 * cols + box.col0, cols, 1}; }

StridedBox intersect(const StridedBox& memory, const Box& box) {
  const Box both = intersect(memory.box, box);
  if (both.empty()) return {both, memory.offset, memory.row_stride, memory.col_stride};
  return {both, memory.at(both.row0, both.col0), memory.row_stride, memory.col_stride};
}

StridedBox transposed(const StridedBox& memory) {
  return {transposed(memory.box), memory.offset, memory.col_stride, memory.row_stride};
}

}  // namespace shard8::io
