// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "io/box.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"

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

namespace {

constexpr std::size_t kLongestTensorName = 1024;            // chosen; Hugging Face names have less than 100 bytes
constexpr std::int64_t kMostBytes = std::int64_t{1} << 62;  // of a tensor; sums of a few such sizes fit 64 bits

std::string problem_of_name(const std::string& name) {
  if (name.empty()) return "has no name";
  if (name.size() > kLongestTensorName) {
    return fmt::format("has a name of {} bytes; at most {} are allowed", name.size(), kLongestTensorName);
  }
  const bool plain = base::is_utf8(name) && base::printable(name) == name && name.find('\t') == std::string::npos;
  if (!plain || name.find('/') != std::string::npos || name == "." || name == "..") {
    return "has a name that no HDF5 group can have: needed is UTF-8 without '/' and control characters, not '.' or "
           "'..'";
  }
  return {};
}

std::string problem_of_dtype(const ShardBox& box) {
  const auto& known = shard_dtypes();
  const auto found = std::find_if(known.begin(), known.end(), [&](const auto& d) { return d.name == box.dtype; });
  if (found == known.end()) {
    std::vector<std::string_view> names;
    for (const auto& dtype : known) names.push_back(dtype.name);
    return fmt::format("has dtype '{}'; allowed are {}", base::quotable(box.dtype), fmt::join(names, ", "));
  }
  if (box.element_bytes != found->element_bytes) {
    return fmt::format("has {} bytes an element; {} has {}", box.element_bytes, box.dtype, found->element_bytes);
  }
  return {};
}

/// problem_of_dtype() must have found nothing.
std::string problem_of_extents(const ShardBox& box) {
  const auto& shape = box.shape;
  std::int64_t bytes = box.element_bytes;
  bool good = shape.size() == 1 || shape.size() == 2;
  for (const auto extent : shape) {
    good = good && extent > 0 && !__builtin_mul_overflow(bytes, extent, &bytes) && bytes <= kMostBytes;
  }
  if (!good) {
    return fmt::format("is of a tensor of shape ({}); needed are 1 or 2 positive extents and at most 2^62 bytes",
                       fmt::join(shape, ", "));
  }
  const std::int64_t rows = shape[0], cols = shape.size() == 1 ? 1 : shape[1];
  const Box& b = box.box;
  const bool inside = b.row0 >= 0 && b.rows > 0 && b.row0 < rows && b.rows <= rows - b.row0 && b.col0 >= 0 &&
                      b.cols > 0 && b.col0 < cols && b.cols <= cols - b.col0;
  if (inside) return {};
  return fmt::format(
      "has {} rows from {} and {} columns from {} of a tensor of {} x {}; it must be inside and not empty", b.rows,
      b.row0, b.cols, b.col0, rows, cols);
}

std::vector<ByteRange> places_in_order(const std::vector<ShardBox>& boxes, const ByteRange& index) {
  std::vector<ByteRange> places = {index};
  for (const auto& box : boxes) places.push_back({box.offset, box.bytes()});
  std::sort(places.begin(), places.end(),
            [](const auto& a, const auto& b) { return std::pair(a.offset, a.bytes) < std::pair(b.offset, b.bytes); });
  return places;
}

}  // namespace

std::uint64_t ShardBox::block_bytes(std::uint64_t block) const {
  return std::min(kShardBlock, bytes() - block * kShardBlock);
}

std::string ShardBox::label() const {
  return fmt::format("'{}', {}, rows {} to {}, columns {} to {}", base::quotable(name), base::quotable(content),
                     box.row0, box.row0 + box.rows, box.col0, box.col0 + box.cols);
}

const std::vector<ShardDtype>& shard_dtypes() {
  static const std::vector<ShardDtype> dtypes = {{"fp32", 4}, {"bf16", 2}, {"i32", 4},  {"u8", 1},
                                                 {"e4m3", 1}, {"e5m2", 1}, {"e8m0", 1}, {"i16", 2}};
  return dtypes;
}

std::string problem_of_boxes(const std::vector<ShardBox>& boxes) {
  std::set<std::tuple<std::string_view, std::string_view, std::int64_t, std::int64_t>> places;
  std::map<std::pair<std::string_view, std::string_view>, const ShardBox*> tensors;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    const ShardBox& box = boxes[i];
    const auto wrong = [&](const std::string& problem) {
      return fmt::format("box {} ('{}', '{}') {}", i, base::quotable(box.name), base::quotable(box.content), problem);
    };
    auto problem = problem_of_name(box.name);
    if (problem.empty()) problem = problem_of_name(box.content);
    if (problem.empty()) problem = problem_of_dtype(box);
    if (problem.empty()) problem = problem_of_extents(box);
    if (!problem.empty()) return wrong(problem);
    if (!places.insert({box.name, box.content, box.box.row0, box.box.col0}).second) {
      return wrong(fmt::format("is there twice with row {} and column {}", box.box.row0, box.box.col0));
    }
    const ShardBox& first = *tensors.try_emplace({box.name, box.content}, &box).first->second;
    if (first.dtype != box.dtype || first.shape != box.shape) {
      return wrong(fmt::format("is {} of shape ({}), and another box of this tensor is {} of shape ({})", box.dtype,
                               fmt::join(box.shape, ", "), first.dtype, fmt::join(first.shape, ", ")));
    }
  }
  return {};
}

std::string problem_of_places(const std::vector<ShardBox>& boxes, const ByteRange& index, std::uint64_t length) {
  const auto outside = [&](const ByteRange& range) {
    return range.offset > length || range.bytes > length - range.offset;
  };
  if (outside(index)) {
    return fmt::format("the index has {} bytes from byte {} of {}", index.bytes, index.offset, length);
  }
  for (const auto& box : boxes) {
    if (outside({box.offset, box.bytes()})) {
      return fmt::format("{}: has {} bytes from byte {} of {}", box.label(), box.bytes(), box.offset, length);
    }
  }
  const auto places = places_in_order(boxes, index);
  for (std::size_t i = 1; i < places.size(); ++i) {
    if (places[i].offset < places[i - 1].end()) {
      return fmt::format("{} bytes from byte {} overlap {} bytes from byte {}", places[i].bytes, places[i].offset,
                         places[i - 1].bytes, places[i - 1].offset);
    }
  }
  return {};
}

std::vector<ByteRange> rest_of(const std::vector<ShardBox>& boxes, const ByteRange& index, std::uint64_t length) {
  std::vector<ByteRange> rest;
  std::uint64_t end = 0;
  for (const auto& place : places_in_order(boxes, index)) {
    if (place.offset > end) rest.push_back({end, place.offset - end});
    end = place.end();
  }
  if (length > end) rest.push_back({end, length - end});
  return rest;
}

}  // namespace shard8::io
