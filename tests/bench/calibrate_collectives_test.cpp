// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <thread>
#include <vector>

#include "bench/calibrate.hpp"

// Which groups and sizes of collectives calibrate times, in which order, with a clock of the test's own.

namespace shard8::bench {
namespace {

using machine::CollectiveTime;
using profile::Collective;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kMost = 1 << 20;  ///< five sizes: 4, 16, 64, 256 and 1024 KiB

comm::Communicator world() { return comm::Communicator(MPI_COMM_WORLD, "world", comm::Waiting::yield, nullptr); }

/// Microseconds of a group's call: 10 and a nanosecond for each byte.
double plain_us(std::uint64_t bytes) { return 10 + 1e-3 * static_cast<double>(bytes); }

struct Timer {
  std::uint64_t disturbed = 0;                           ///< the size whose first call takes five times as long
  std::map<std::pair<int, std::uint64_t>, int> calls{};  ///< by ranks and bytes
  std::chrono::milliseconds takes{0};                    ///< a call, really

  std::vector<CollectiveFigures> operator()(const comm::Communicator& group, std::uint64_t bytes, int /*repetitions*/) {
    const bool first = ++calls[{group.size(), bytes}] == 1;
    std::this_thread::sleep_for(takes);
    std::vector<CollectiveFigures> figures;
    for (const Collective op : {Collective::all_gather, Collective::reduce_scatter}) {
      const bool slow = first && bytes == disturbed && op == Collective::reduce_scatter;
      CollectiveFigures one;
      one.ranks = group.size();
      one.op = op;
      one.bytes = bytes;
      one.us = plain_us(bytes) * (slow ? 5 : 1);
      figures.push_back(one);
    }
    return figures;
  }
};

TEST(CalibrateCollectives, AllRanksComeFirstAndADisturbedSizeIsTimedAgain) {
  Timer timer{.disturbed = 64 << 10};
  const auto w = world();
  const auto rows = time_collectives(w, std::ref(timer), kMost, Clock::now() + std::chrono::hours(1));
  if (w.rank() != 0) return;
  ASSERT_EQ(rows.size(), static_cast<std::size_t>(w.size() - 1) * 5 * 2);
  EXPECT_EQ(rows.front().ranks, w.size());
  for (const CollectiveTime& row : rows) EXPECT_NEAR(row.seconds, 1e-6 * plain_us(row.bytes), 1e-12) << row.bytes;
  for (const auto& [of, times] : timer.calls) EXPECT_EQ(times, of.second == timer.disturbed ? 2 : 1) << of.second;
}

// The smallest and the largest size have no neighbour on one side.
TEST(CalibrateCollectives, SizesAtTheEndsAreTimedOnce) {
  for (const std::uint64_t end : {std::uint64_t{4096}, kMost}) {
    Timer timer{.disturbed = end};
    time_collectives(world(), std::ref(timer), kMost, Clock::now() + std::chrono::hours(1));
    for (const auto& [of, times] : timer.calls) EXPECT_EQ(times, 1) << of.second;
  }
}

TEST(CalibrateCollectives, EachGroupHasItsPartOfTheTime) {
  Timer timer{.takes = std::chrono::milliseconds(60)};
  const auto w = world();
  time_collectives(w, std::ref(timer), std::uint64_t{1} << 40, Clock::now() + std::chrono::milliseconds(1200));
  if (w.rank() != 0) return;
  for (int ranks = 2; ranks <= w.size(); ++ranks) EXPECT_GE((timer.calls.count({ranks, 4096})), 1U) << ranks;
}

TEST(CalibrateCollectives, NothingIsTimedAfterTheDeadline) {
  Timer timer;
  EXPECT_TRUE(time_collectives(world(), std::ref(timer), kMost, Clock::now() - std::chrono::seconds(1)).empty());
  EXPECT_TRUE(timer.calls.empty());
}

}  // namespace
}  // namespace shard8::bench
