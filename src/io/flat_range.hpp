// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>

namespace shard8::io {

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
