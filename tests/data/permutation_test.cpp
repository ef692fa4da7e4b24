// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "data/dataset_kinds.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "base/error.hpp"

using namespace shard8;

namespace {

std::vector<std::int64_t> order(std::int64_t size, std::uint64_t seed, std::uint64_t epoch) {
  const data::Permutation permutation(size, seed, epoch);
  std::vector<std::int64_t> out;
  for (std::int64_t i = 0; i < size; ++i) out.push_back(permutation(i));
  return out;
}

}  // namespace

TEST(Permutation, IsABijection) {
  for (const std::int64_t size : {1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 100, 1000, 1024, 4097, 65536, 65537}) {
    std::vector<int> hits(static_cast<std::size_t>(size));
    for (const auto to : order(size, 99, 2)) {
      ASSERT_GE(to, 0) << size;
      ASSERT_LT(to, size) << size;
      ++hits[static_cast<std::size_t>(to)];
    }
    for (const auto count : hits) ASSERT_EQ(count, 1) << size;
  }
}

TEST(Permutation, StaysInsideHugeSizes) {
  for (const std::int64_t size : {(std::int64_t{1} << 40) + 1, std::int64_t{1} << 62, INT64_MAX}) {
    const data::Permutation permutation(size, 1, 0);
    for (const std::int64_t i : {std::int64_t{0}, size / 2, size - 1}) {
      EXPECT_GE(permutation(i), 0);
      EXPECT_LT(permutation(i), size);
    }
  }
}

TEST(Permutation, DependsOnSeedAndEpochAlone) {
  const auto reference = order(1000, 5, 7);
  EXPECT_EQ(order(1000, 5, 7), reference);
  for (std::uint64_t other = 0; other < 20; ++other) {
    if (other != 7) {
      EXPECT_NE(order(1000, 5, other), reference) << other;
    }
    if (other != 5) {
      EXPECT_NE(order(1000, other, 7), reference) << other;
    }
  }
  EXPECT_NE(order(1000, 7, 5), reference);
}

// The image of an element is uniform over epochs. A chi-square of 15 degrees of freedom is above 45 with a
// probability of 1e-4; seed and epochs are fixed, so the test always computes the same values.
TEST(Permutation, ShufflesEvenly) {
  constexpr int kCells = 16, kDraws = 16'000;
  for (const std::int64_t from : {0, 1, 500, 999}) {
    std::vector<double> cells(kCells);
    for (std::uint64_t epoch = 0; epoch < kDraws; ++epoch) {
      const auto to = data::Permutation(1000, 3, epoch)(from);
      ++cells[static_cast<std::size_t>(to * kCells / 1000)];
    }
    double chi = 0.0;
    for (int cell = 0; cell < kCells; ++cell) {
      // 1000 values do not divide evenly into 16 cells.
      const int values = ((cell + 1) * 1000 + kCells - 1) / kCells - (cell * 1000 + kCells - 1) / kCells;
      const double expected = kDraws * values / 1000.0;
      const double difference = cells[static_cast<std::size_t>(cell)] - expected;
      chi += difference * difference / expected;
    }
    EXPECT_LT(chi, 45.0) << from;
  }
}

// The expected values come from the same formulas written in Python. A change of them would silently change the order
// of samples in every run.
TEST(Permutation, StaysWhatItWas) {
  EXPECT_EQ(order(10, 1234, 0), (std::vector<std::int64_t>{4, 2, 7, 8, 1, 5, 6, 3, 9, 0}));
  EXPECT_EQ(order(10, 1234, 1), (std::vector<std::int64_t>{2, 5, 7, 9, 6, 1, 0, 4, 8, 3}));
  const auto thousand = order(1000, 7, 3);
  EXPECT_EQ(std::vector(thousand.begin(), thousand.begin() + 8),
            (std::vector<std::int64_t>{117, 668, 222, 263, 422, 14, 317, 374}));
}

TEST(Permutation, RefusesWhatIsOutside) {
  EXPECT_THROW(data::Permutation(0, 1, 1), base::Error);
  EXPECT_THROW(data::Permutation(5, 1, 1)(5), base::Error);
  EXPECT_THROW(data::Permutation(5, 1, 1)(-1), base::Error);
}
