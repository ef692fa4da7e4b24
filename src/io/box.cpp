// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "io/box.hpp"

#include <algorithm>
#include <vector>

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

void for_each_box(std::span<const std::int64_t> shape, std::int64_t first, std::int64_t count,
                  const std::function<void(std::span<const Range>, std::int64_t)>& visit) {
  const std::size_t rank = shape.size();
  std::vector<std::int64_t> slice(rank + 1, 1);  // slice[d]: elements behind one index of dimension d - 1
  for (std::size_t d = rank; d-- > 0;) slice[d] = slice[d + 1] * shape[d];
  std::vector<Range> ranges(rank);
  while (count > 0) {
    // The outermost dimension of which a whole slice begins here and ends within the elements. Only the innermost one
    // has slices of one element, which always do.
    std::size_t along = 0;
    while (along + 1 < rank && (first % slice[along + 1] != 0 || count < slice[along + 1])) ++along;
    std::int64_t elements = 1;
    for (std::size_t d = 0; d < rank; ++d) {
      const std::int64_t index = first / slice[d + 1] % shape[d];
      if (d < along) ranges[d] = {index, 1, 1};
      if (d == along) ranges[d] = {index, std::min(shape[d] - index, count / slice[d + 1]), 1};
      if (d > along) ranges[d] = {0, shape[d], 1};
      elements *= ranges[d].count;
    }
    visit(ranges, elements);
    first += elements;
    count -= elements;
  }
}

}  // namespace shard8::io
