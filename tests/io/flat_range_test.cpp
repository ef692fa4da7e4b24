// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "io/box.hpp"

#include <gtest/gtest.h>

#include <vector>

using namespace shard8;

namespace {

/// The row-major numbers of the elements of a box, in order.
void append_box(std::span<const std::int64_t> shape, std::span<const io::Range> ranges, std::size_t d,
                std::int64_t number, std::vector<std::int64_t>& out) {
  if (d == shape.size()) {
    out.push_back(number);
    return;
  }
  ASSERT_GE(ranges[d].start, 0);
  ASSERT_LE(ranges[d].start + ranges[d].count, shape[d]);
  EXPECT_EQ(ranges[d].stride, 1);
  for (std::int64_t i = 0; i < ranges[d].count; ++i)
    append_box(shape, ranges, d + 1, number * shape[d] + ranges[d].start + i, out);
}

}  // namespace

// Every range of every shape: the boxes together are its elements in order, and they are few.
TEST(FlatRange, EveryRange) {
  const std::vector<std::vector<std::int64_t>> shapes = {{},     {1},       {7},       {3, 5},       {5, 1},
                                                         {1, 5}, {3, 4, 2}, {2, 1, 6}, {2, 3, 2, 2}, {1, 1, 1}};
  for (const auto& shape : shapes) {
    std::int64_t elements = 1;
    for (const auto size : shape) elements *= size;
    for (std::int64_t first = 0; first <= elements; ++first) {
      for (std::int64_t count = 0; count <= elements - first; ++count) {
        std::vector<std::int64_t> numbers;
        std::size_t boxes = 0;
        io::for_each_box(shape, first, count, [&](std::span<const io::Range> ranges, std::int64_t size) {
          const auto before = numbers.size();
          ASSERT_EQ(ranges.size(), shape.size());
          append_box(shape, ranges, 0, 0, numbers);
          EXPECT_EQ(static_cast<std::int64_t>(numbers.size() - before), size);
          ++boxes;
        });
        ASSERT_EQ(static_cast<std::int64_t>(numbers.size()), count);
        for (std::int64_t i = 0; i < count; ++i) ASSERT_EQ(numbers[static_cast<std::size_t>(i)], first + i);
        EXPECT_LE(boxes, std::max<std::size_t>(1, 2 * shape.size()));
      }
    }
  }
}
