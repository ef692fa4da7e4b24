// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// What watchdogs decide: which wait of a host takes too long.

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "comm/host_waits.hpp"
#include "comm/watchdog.hpp"

namespace shard8::comm::tests {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Time = std::chrono::steady_clock::time_point;

const Time kBegin = Time() + seconds(1000);

TEST(HangLimits, start_has_ten_minutes_at_least) {
  EXPECT_EQ(HangLimits{}.step, seconds(600));
  EXPECT_EQ(HangLimits{}.start, seconds(600));
  EXPECT_EQ(HangLimits::of(seconds(5)).step, seconds(5));
  EXPECT_EQ(HangLimits::of(seconds(5)).start, seconds(600));
  EXPECT_EQ(HangLimits::of(seconds(900)).start, seconds(900));
}

TEST(HangLimits, watchdogs_look_ten_times_in_a_limit_but_not_all_the_time) {
  EXPECT_EQ(HangLimits::of(seconds(5)).interval(), milliseconds(500));
  EXPECT_EQ(HangLimits{}.interval(), seconds(2));
  EXPECT_EQ((HangLimits{milliseconds(1), seconds(600)}).interval(), milliseconds(10));
}

TEST(HostWaits, names_a_wait_that_is_too_long) {
  HostWaits waits;
  waits.set_limits({seconds(5), seconds(20)});
  EXPECT_FALSE(waits.overdue(kBegin + seconds(1000)));
  {
    HostWaits::Wait wait(&waits, {"all_gather", "shard", 1, 4, 8192, 17}, kBegin);
    EXPECT_FALSE(waits.overdue(kBegin + seconds(19)));
    EXPECT_EQ(waits.overdue(kBegin + seconds(20)),
              "all_gather in group 'shard' on its rank 1 of 4, call 17, 8192 bytes: has waited 20 s for other ranks; a "
              "rank hangs or a link is down (run.hang_limit_s allows 20 s before the end of the first step)");
    waits.first_step_over();
    wait.set_peer(3);
    EXPECT_FALSE(waits.overdue(kBegin + milliseconds(4999)));
    EXPECT_EQ(waits.overdue(kBegin + seconds(5)),
              "all_gather in group 'shard' on its rank 1 of 4, call 17, 8192 bytes: has waited 5 s for rank 3 of the "
              "group; a rank hangs or a link is down (run.hang_limit_s allows 5 s)");
  }
  EXPECT_FALSE(waits.overdue(kBegin + seconds(1000)));
}

TEST(HostWaits, within_a_wait_the_inner_one_is_named_first) {
  HostWaits waits;
  waits.set_limits({seconds(5), seconds(5)});
  const auto named = [&](seconds after) { return waits.overdue(kBegin + after).value_or("none").substr(0, 5); };
  const HostWaits::Wait outer(&waits, {.operation = "outer"}, kBegin);
  {
    const HostWaits::Wait inner(&waits, {.operation = "inner"}, kBegin + seconds(2));
    EXPECT_EQ(named(seconds(4)), "none");
    EXPECT_EQ(named(seconds(6)), "outer");  // which is too long first
    EXPECT_EQ(named(seconds(7)), "inner");
  }
  EXPECT_EQ(named(seconds(7)), "outer");
}

TEST(HostWaits, nobody_has_to_watch) {
  HostWaits::Wait wait(nullptr, {.operation = "alone"});
  wait.set_peer(1);
}

}  // namespace
}  // namespace shard8::comm::tests
