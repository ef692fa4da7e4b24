// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "kernels/moe.hpp"
#include "tests/kernels/moe_cases.hpp"

// Sums of what is dispatched, against rows that are laid out one by one.

namespace shard8::tests {
namespace {

struct Case {
  int ranks = 1;
  std::int64_t local = 1;  ///< experts of a rank
  std::int64_t round_rows = 1, multiple = 1;
  std::int64_t most = 0;  ///< rows of a rank for an expert
};

/// The sums of one call, behind the counts of experts.
Doubles counted_one_by_one(const Case& c, const std::vector<std::int64_t>& counts, int rank) {
  const std::int64_t experts = c.ranks * c.local;
  double received = 0, further = 0, busiest = 0, rounds = 0;
  for (int to = 0; to < c.ranks; ++to) {
    std::int64_t place = 0, rows = 0;
    for (std::int64_t e = to * c.local; e < (to + 1) * c.local; ++e) {
      for (int from = 0; from < c.ranks; ++from)
        for (std::int64_t i = 0; i < counts[static_cast<std::size_t>(from * experts + e)]; ++i, ++place, ++rows)
          if (from == rank && place / c.round_rows > 0) ++further;
      while (place % c.multiple != 0) ++place;
    }
    if (to == rank) received = static_cast<double>(rows);
    busiest = std::max(busiest, static_cast<double>(rows));
    rounds = std::max(rounds, static_cast<double>((place + c.round_rows - 1) / c.round_rows));
  }
  return {received, further, busiest, rounds, rounds};
}

TEST(MoeCount, SumsAreThoseOfRowsLaidOut) {
  std::mt19937 draw(7);
  const std::vector<Case> cases{{1, 1, 8, 1, 40},    {1, 6, 16, 1, 9},   {2, 3, 7, 1, 10},    {2, 64, 128, 16, 30},
                                {4, 2, 32, 16, 50},  {8, 16, 96, 32, 9}, {3, 5, 1, 1, 3},     {16, 8, 256, 128, 70},
                                {40, 2, 200, 1, 12}, {2, 2, 4, 1, 0},    {5, 1, 1000, 1, 100}};
  for (const Case& c : cases) {
    SCOPED_TRACE(::testing::Message() << c.ranks << " ranks of " << c.local << ", rounds of " << c.round_rows);
    const std::int64_t experts = c.ranks * c.local;
    const int rank = static_cast<int>(draw() % static_cast<unsigned>(c.ranks));
    Doubles want(static_cast<std::size_t>(experts + kernels::kMoeSums));
    const Buffer sums({experts + kernels::kMoeSums}, DType::i32, 0.0);
    for (int call = 0; call < 3; ++call) {
      std::vector<std::int64_t> counts(static_cast<std::size_t>(c.ranks * experts));
      for (std::int64_t& n : counts)
        n = std::max<std::int64_t>(0, static_cast<std::int64_t>(draw() % (2 * c.most + 1)) - c.most);
      kernels::moe_count(Exec(), sums, Buffer({c.ranks, experts}, DType::i32, Doubles(counts.begin(), counts.end())),
                         {rank, c.round_rows, c.multiple});
      for (std::int64_t e = 0; e < experts; ++e)
        want[static_cast<std::size_t>(e)] += static_cast<double>(counts[static_cast<std::size_t>(rank * experts + e)]);
      const Doubles more = counted_one_by_one(c, counts, rank);
      for (std::size_t i = 0; i + 1 < more.size(); ++i) want[static_cast<std::size_t>(experts) + i] += more[i];
      want.back() = std::max(want.back(), more.back());
    }
    EXPECT_EQ(sums.get(), want);
  }
}

/// A round of no rows, as where no token has an expert.
TEST(MoeCount, NoRows) {
  const Buffer sums({4 + kernels::kMoeSums}, DType::i32, 0.0);
  kernels::moe_count(Exec(), sums, Buffer({2, 4}, DType::i32, 0.0), {1, 0, 1});
  EXPECT_EQ(sums.get(), Doubles(static_cast<std::size_t>(4 + kernels::kMoeSums)));
}

}  // namespace
}  // namespace shard8::tests
