// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "tests/comm/buffer.hpp"

namespace shard8::comm::tests {
namespace {

using Reduce = Communicator::Reduce;

TEST(Control, doubles) {
  const Communicator group = world();
  std::vector<double> sum(5), max(5);
  for (std::size_t i = 0; i < 5; ++i) sum[i] = max[i] = 0.1 * group.rank() + static_cast<double>(i);
  group.all_reduce(sum, Reduce::sum);
  group.all_reduce(max, Reduce::max);
  for (std::size_t i = 0; i < 5; ++i) {
    double expected = static_cast<double>(i);
    for (int r = 1; r < group.size(); ++r) expected += 0.1 * r + static_cast<double>(i);
    EXPECT_EQ(sum[i], expected);
    EXPECT_EQ(max[i], 0.1 * (group.size() - 1) + static_cast<double>(i));
  }
  std::array<double, 1> nan{group.rank() == 0 ? std::numeric_limits<double>::quiet_NaN() : 1.0};
  group.all_reduce(nan, Reduce::max);
  EXPECT_TRUE(std::isnan(nan[0]));
  std::vector<double> none;
  group.all_reduce(none, Reduce::sum);
}

// All ranks of this test read one clock.
TEST(Control, clocks) {
  const Communicator group = world();
  const ClockReading reading = group.compare_clocks();
  EXPECT_GE(reading.round_trip_ns, 0);
  EXPECT_LE(std::abs(reading.ahead_ns), reading.round_trip_ns / 2 + 1);
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  EXPECT_LE(reading.local_ns, std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

TEST(Control, integers) {
  const Communicator group = world();
  const std::uint64_t large = std::uint64_t{1} << 60;
  std::array<std::uint64_t, 2> sum{1, large + static_cast<std::uint64_t>(group.rank())}, max = sum;
  group.all_reduce(sum, Reduce::sum);
  group.all_reduce(max, Reduce::max);
  const auto n = static_cast<std::uint64_t>(group.size());
  EXPECT_EQ(sum[0], n);
  EXPECT_EQ(sum[1], n * large + n * (n - 1) / 2);
  EXPECT_EQ(max[1], large + n - 1);
}

TEST(Control, gathers_values_and_texts) {
  const Communicator group = world();
  const std::array<double, 2> mine{1.5 * group.rank(), -1};
  const std::vector<double> all = group.all_gather(mine);
  ASSERT_EQ(all.size(), 2u * static_cast<unsigned>(group.size()));
  for (int r = 0; r < group.size(); ++r) {
    EXPECT_EQ(all[2 * static_cast<std::size_t>(r)], 1.5 * r);
    EXPECT_EQ(all[2 * static_cast<std::size_t>(r) + 1], -1);
  }
  const auto texts = group.all_gather(std::string(static_cast<std::size_t>(group.rank()) * 3, 'x'));
  ASSERT_EQ(texts.size(), static_cast<std::size_t>(group.size()));
  for (std::size_t r = 0; r < texts.size(); ++r) EXPECT_EQ(texts[r], std::string(r * 3, 'x'));
}

// More values than are reduced at once, so that there are several calls.
TEST(Control, values_over_ranks) {
  const Communicator group = world();
  const int n = group.size();
  std::vector<double> mine;
  for (int i = 0; i < 70000; ++i) mine.push_back(i + 10 * ((group.rank() + i) % n));
  const auto all = group.over_ranks(mine);
  ASSERT_EQ(all.size(), mine.size());
  for (int i = 0; i < 70000; ++i) {
    const auto& value = all[static_cast<std::size_t>(i)];
    ASSERT_EQ(value.min, i);
    ASSERT_EQ(value.max, i + 10 * (n - 1));
    ASSERT_EQ(value.sum, n * i + 10 * n * (n - 1) / 2);
    ASSERT_EQ(value.max_rank, ((n - 1 - i) % n + n) % n);
  }
  EXPECT_EQ(group.over_ranks(std::vector<double>(3, 1.0))[2].max_rank, 0);
  EXPECT_TRUE(group.over_ranks({}).empty());
}

TEST(Control, gathers_to_one_rank) {
  const Communicator group = world();
  for (int root = 0; root < group.size(); ++root) {
    const std::array<double, 2> mine{1.5 * group.rank(), -1};
    const std::vector<double> all = group.gather(mine, root);
    const auto texts = group.gather(std::string(static_cast<std::size_t>(group.rank()) * 3, 'x'), root);
    if (group.rank() != root) {
      EXPECT_TRUE(all.empty());
      EXPECT_TRUE(texts.empty());
      continue;
    }
    ASSERT_EQ(all.size(), 2u * static_cast<unsigned>(group.size()));
    ASSERT_EQ(texts.size(), static_cast<std::size_t>(group.size()));
    for (std::size_t r = 0; r < texts.size(); ++r) {
      EXPECT_EQ(all[2 * r], 1.5 * static_cast<double>(r));
      EXPECT_EQ(all[2 * r + 1], -1);
      EXPECT_EQ(texts[r], std::string(r * 3, 'x'));
    }
  }
}

TEST(Control, broadcasts_in_pieces) {
  const Communicator group = world(Limits{.message_bytes = 7});
  for (int root = 0; root < group.size(); ++root) {
    const std::string expected = "from rank " + std::to_string(root) + ": " + std::string(100, 'y');
    std::string text = group.rank() == root ? expected : "old";
    group.broadcast(text, root);
    EXPECT_EQ(text, expected);
    std::string empty = group.rank() == root ? "" : "old";
    group.broadcast(empty, root);
    EXPECT_EQ(empty, "");
  }
}

TEST(Control, barrier_holds_until_all_are_there) {
  const auto seconds = [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  };
  for (const Waiting waiting : {Waiting::yield, Waiting::spin}) {
    const Communicator group = world(nullptr, waiting);
    if (group.rank() == group.size() - 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const std::array<double, 1> came{seconds()};
    group.barrier();
    const double left = seconds();
    for (const double other : group.all_gather(came)) EXPECT_GE(left, other);
  }
}

}  // namespace
}  // namespace shard8::comm::tests
