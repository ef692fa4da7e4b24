// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "io/box.hpp"

namespace shard8 {
namespace {

using io::Box;
using io::in_blocks;
using io::StridedBox;

using Element = std::pair<std::int64_t, std::int64_t>;

/// All elements of a box; this defines what a box is.
std::set<Element> elements(const Box& box) {
  std::set<Element> all;
  for (std::int64_t r = box.row0; r < box.row0 + box.rows; ++r)
    for (std::int64_t c = box.col0; c < box.col0 + box.cols; ++c) all.emplace(r, c);
  return all;
}

/// Boxes of a tensor (12, 9), some of them empty.
class Boxes {
 public:
  static constexpr std::int64_t kRows = 12, kCols = 9;
  Box next() {
    const auto [row, row_end] = range(kRows);
    const auto [col, col_end] = range(kCols);
    return {row, row_end - row, col, col_end - col};
  }
  std::int64_t below(std::int64_t end) { return std::uniform_int_distribution<std::int64_t>(0, end)(engine_); }

 private:
  std::pair<std::int64_t, std::int64_t> range(std::int64_t end) {
    const std::int64_t a = below(end), b = below(end);
    return std::minmax(a, b);
  }
  std::mt19937 engine_{20261123};
};

TEST(Box, KnowsWhatItIs) {
  EXPECT_TRUE(Box{}.empty());
  EXPECT_TRUE((Box{3, 0, 0, 5}.empty()));
  EXPECT_TRUE((Box{3, 2, 0, 0}.empty()));
  EXPECT_EQ((Box{3, 2, 1, 5}.count()), 10);
  EXPECT_TRUE((Box{0, 4, 0, 5}.whole(4, 5)));
  for (const Box& part : {Box{0, 3, 0, 5}, Box{1, 3, 0, 5}, Box{0, 4, 0, 4}, Box{0, 4, 1, 4}})
    EXPECT_FALSE(part.whole(4, 5));
  EXPECT_TRUE(Box{}.whole(0, 0));
}

TEST(Box, IntersectionIsOfTheElements) {
  Boxes boxes;
  int empty = 0;
  for (int i = 0; i < 2000; ++i) {
    const Box a = boxes.next(), b = boxes.next(), both = intersect(a, b);
    std::set<Element> expected;
    for (const Element& e : elements(a))
      if (elements(b).contains(e)) expected.insert(e);
    EXPECT_EQ(elements(both), expected);
    EXPECT_EQ(both, intersect(b, a));
    EXPECT_EQ(both, intersect(both, a)) << "what is in both is in each";
    if (!a.empty()) {
      EXPECT_EQ(intersect(a, a), a);
    }
    empty += both.empty() ? 1 : 0;
    if (both.empty()) {
      EXPECT_EQ(both, Box{});
    }
  }
  EXPECT_GT(empty, 200);
  EXPECT_LT(empty, 1800);
}

TEST(Box, IntersectionsWithAPartitionCoverABoxOnce) {
  Boxes boxes;
  for (int i = 0; i < 500; ++i) {
    // A grid of boxes, some of them empty.
    std::set<std::int64_t> rows{0, Boxes::kRows}, cols{0, Boxes::kCols};
    for (int cut = 0; cut < 3; ++cut) {
      rows.insert(boxes.below(Boxes::kRows));
      cols.insert(boxes.below(Boxes::kCols));
    }
    const Box wanted = boxes.next();
    std::multiset<Element> covered;
    std::int64_t count = 0;
    for (auto r = rows.begin(); std::next(r) != rows.end(); ++r) {
      for (auto c = cols.begin(); std::next(c) != cols.end(); ++c) {
        const Box part = intersect(Box{*r, *std::next(r) - *r, *c, *std::next(c) - *c}, wanted);
        for (const Element& e : elements(part)) covered.insert(e);
        count += part.count();
      }
    }
    EXPECT_EQ(count, wanted.count());
    EXPECT_EQ(covered.size(), elements(wanted).size());
    EXPECT_EQ(std::set<Element>(covered.begin(), covered.end()), elements(wanted));
  }
}

TEST(Box, RowsAreClipped) {
  const Box box{10, 5, 2, 3};
  EXPECT_EQ(clip_rows(box, 0, 100), box);
  EXPECT_EQ(clip_rows(box, 12, 2), (Box{12, 2, 2, 3}));
  EXPECT_EQ(clip_rows(box, 8, 4), (Box{10, 2, 2, 3}));
  EXPECT_EQ(clip_rows(box, 13, 9), (Box{13, 2, 2, 3}));
  EXPECT_EQ(clip_rows(box, 11, 0), (Box{11, 0, 2, 3}));
  EXPECT_EQ(clip_rows(box, 0, 10), (Box{10, 0, 2, 3}));
  EXPECT_EQ(clip_rows(box, 15, 9), (Box{15, 0, 2, 3}));
  EXPECT_EQ(clip_rows(box, 99, 1), (Box{15, 0, 2, 3}));
}

TEST(Box, IsTransposedAndCountedInBlocks) {
  const Box box{128, 256, 32, 96};
  EXPECT_EQ(transposed(box), (Box{32, 96, 128, 256}));
  EXPECT_EQ(in_blocks(box, 128, 32), (Box{1, 2, 1, 3}));
  EXPECT_EQ(in_blocks(box, 1, 1), box);
  EXPECT_EQ(in_blocks({128, 0, 32, 96}, 128, 32), (Box{1, 0, 1, 3}));
  EXPECT_THROW((void)in_blocks(box, 64, 64), base::Error);
  EXPECT_THROW((void)in_blocks({64, 128, 0, 32}, 128, 32), base::Error);
  EXPECT_THROW((void)in_blocks({128, 64, 0, 32}, 128, 32), base::Error);
}

/// A row-major tensor (12, 9). The value of each element is its own row and column.
std::vector<Element> whole_tensor() {
  std::vector<Element> all;
  for (std::int64_t r = 0; r < Boxes::kRows; ++r)
    for (std::int64_t c = 0; c < Boxes::kCols; ++c) all.emplace_back(r, c);
  return all;
}

TEST(StridedBox, FindsElementsInARowMajorTensor) {
  const auto memory = whole_tensor();
  Boxes boxes;
  for (int i = 0; i < 500; ++i) {
    const Box box = boxes.next();
    const StridedBox strided = StridedBox::of(box, Boxes::kCols);
    for (const Element& e : elements(box))
      EXPECT_EQ(memory[static_cast<std::size_t>(strided.at(e.first, e.second))], e);
  }
}

TEST(StridedBox, FindsWhatAnotherBoxHasOfIt) {
  Boxes boxes;
  const auto memory = whole_tensor();
  for (int i = 0; i < 1000; ++i) {
    const Box box = boxes.next(), wanted = boxes.next();
    const StridedBox part = intersect(StridedBox::of(box, Boxes::kCols), wanted);
    EXPECT_EQ(part.box, intersect(box, wanted));
    for (const Element& e : elements(part.box))
      EXPECT_EQ(memory[static_cast<std::size_t>(part.at(e.first, e.second))], e);
    // The same memory holds the transposed tensor, with the columns as its rows.
    const StridedBox other = intersect(transposed(StridedBox::of(box, Boxes::kCols)), transposed(wanted));
    EXPECT_EQ(other.box, transposed(part.box));
    for (const Element& e : elements(other.box))
      EXPECT_EQ(memory[static_cast<std::size_t>(other.at(e.first, e.second))], (Element{e.second, e.first}));
  }
}

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

}  // namespace
}  // namespace shard8
