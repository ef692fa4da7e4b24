// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/collectives.hpp"

#include <gtest/gtest.h>

#include "bench/bench.hpp"

namespace shard8::bench {
namespace {

using Sizes = std::vector<std::uint64_t>;

TEST(BenchSizes, from_the_smallest_to_the_largest) {
  EXPECT_EQ(sizes_between(1, 64, 4), (Sizes{1, 4, 16, 64}));
  EXPECT_EQ(sizes_between(3, 47, 4), (Sizes{3, 12}));
  EXPECT_EQ(sizes_between(5, 5, 2), Sizes{5});
}

TEST(BenchSizes, of_no_sizes_are_refused) {
  EXPECT_THROW(sizes_between(2, 1, 2), base::Error);
  EXPECT_THROW(sizes_between(0, 1, 2), base::Error);
  EXPECT_THROW(sizes_between(1, 2, 1), base::Error);
}

// 10^18 bytes are the most that an option takes.
TEST(BenchSizes, end_where_the_next_is_beyond_64_bits) {
  EXPECT_EQ(sizes_between(999'000'000'000'000'000, 999'999'999'999'999'999, 1024), Sizes{999'000'000'000'000'000});
  EXPECT_EQ(sizes_between(std::uint64_t{1} << 62, ~std::uint64_t{0}, 2).size(), 2u);
}

TEST(BenchSizes, take_two_wholes_of_the_largest) {
  EXPECT_EQ(host_collective_bytes({.least = 64, .most = 1024, .factor = 8}, 2), 2u * 512);
  EXPECT_EQ(host_collective_bytes({.least = 1, .most = 1, .factor = 8}, 4), 2u * 64) << "rounded up to rows of 16";
  EXPECT_EQ(host_collective_bytes({.least = 8'000'000'000'000, .most = 8'000'000'000'000, .factor = 8}, 2),
            16'000'000'000'000u);
}

}  // namespace
}  // namespace shard8::bench
