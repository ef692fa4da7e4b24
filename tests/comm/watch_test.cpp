// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// What watchdogs decide: which wait of a host, and which call of a device's stream, takes too long, and which peers are
// late.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "comm/host_waits.hpp"

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

TEST(HostWaits, files_of_other_ranks_have_no_limit) {
  HostWaits waits;
  waits.set_limits({seconds(1), seconds(1)});
  {
    const HostWaits::Unlimited reading(&waits);
    const HostWaits::Wait wait(&waits, {.operation = "control values"}, kBegin);
    EXPECT_FALSE(waits.overdue(kBegin + seconds(1000)));
    const HostWaits::Unlimited nobody(nullptr);
  }
  const HostWaits::Wait wait(&waits, {.operation = "control values"}, kBegin);
  EXPECT_TRUE(waits.overdue(kBegin + seconds(2)));
}

TEST(HostWaits, a_main_thread_without_progress_is_overdue_wherever_it_is) {
  HostWaits waits;
  waits.set_limits({seconds(5), seconds(20)});
  int now = 0;
  // Looks every second, and returns after how many seconds of them something was overdue; -1: nothing.
  const auto look = [&](int looks) {
    for (int i = 1; i <= looks; ++i)
      if (waits.overdue(kBegin + seconds(++now))) return i;
    return -1;
  };
  EXPECT_EQ(look(1), -1);
  EXPECT_EQ(look(25), 20);
  waits.progress().note("data");
  EXPECT_EQ(look(15), -1);
  waits.first_step_over();
  waits.progress().note("shard8::forward::gemm");
  EXPECT_EQ(look(5), -1);
  EXPECT_EQ(
      waits.overdue(kBegin + seconds(++now)),
      "the main thread has got no further for 5 s since it noted 'shard8::forward::gemm': it hangs, or needs more "
      "time for one operation (run.hang_limit_s allows 5 s)");
  { const HostWaits::Wait wait(&waits, {.operation = "all_gather"}, kBegin + seconds(now)); }
  EXPECT_EQ(look(5), -1) << "a wait is progress";
  {
    const HostWaits::Unlimited files(&waits);
    EXPECT_EQ(look(100), -1);
  }
  EXPECT_EQ(look(5), -1);
  // The process was stopped for an hour: that was not its fault.
  waits.progress().note();
  EXPECT_EQ(look(3), -1);
  now += 3600;
  EXPECT_EQ(look(2), -1);
}

TEST(HostWaits, nobody_has_to_watch) {
  HostWaits::Wait wait(nullptr, {.operation = "alone"});
  wait.set_peer(1);
}

/// A stream whose host is far ahead: calls issued at kBegin, one after another in the stream.
struct Stream {
  struct Call {
    CallClock clock;
    seconds begins, ends;
    int asked = 0;
  };
  std::vector<Call> calls;

  void issue(seconds begins, seconds ends, bool launched = true) {
    Call& call = calls.emplace_back(Call{{}, begins, ends});
    call.clock.issue(kBegin);
    if (launched) call.clock.launch();
  }
  /// The number of the first overdue call, from 0, with the time that it took; none: (-1, 0 s).
  std::pair<int, seconds> overdue(seconds after, seconds limit) {
    bool first = true;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      Call& call = calls[i];
      const auto state = call.clock.look(
          kBegin + after, limit, first, [&] { return ++call.asked, after >= call.begins; },
          [&] { return ++call.asked, after >= call.ends; });
      if (state == CallClock::State::issue_overdue || state == CallClock::State::running_overdue)
        return {static_cast<int>(i), std::chrono::duration_cast<seconds>(call.clock.time(kBegin + after))};
      if (state != CallClock::State::complete) first = false;
    }
    return {-1, seconds(0)};
  }
};

const std::pair<int, seconds> kNone{-1, seconds(0)};
constexpr seconds kNever{1000000};

// The tenth call ends 100 s after its issue, but no call takes more than 10 s.
TEST(CallClock, a_slow_run_whose_host_is_far_ahead_is_left_alone) {
  Stream stream;
  for (int i = 0; i < 10; ++i) stream.issue(seconds(10 * i), seconds(10 * i + 10));
  for (int now = 0; now <= 200; ++now) EXPECT_EQ(stream.overdue(seconds(now), seconds(15)), kNone) << now;
}

TEST(CallClock, a_call_that_hangs_is_overdue_the_limit_after_the_stream_reached_it) {
  Stream stream;
  for (int i = 0; i < 5; ++i) stream.issue(seconds(10 * i), seconds(10 * i + 10));
  stream.issue(seconds(50), kNever);
  for (int i = 0; i < 5; ++i) stream.issue(kNever, kNever);
  for (int now = 0; now < 65; ++now) EXPECT_EQ(stream.overdue(seconds(now), seconds(15)), kNone) << now;
  EXPECT_EQ(stream.overdue(seconds(65), seconds(15)), (std::pair<int, seconds>(5, seconds(15))));
}

TEST(CallClock, time_counts_from_the_look_that_first_finds_a_call_begun) {
  Stream stream;
  stream.issue(seconds(1), kNever);
  EXPECT_EQ(stream.overdue(seconds(0), seconds(15)), kNone);
  EXPECT_EQ(stream.overdue(seconds(4), seconds(15)), kNone);
  EXPECT_EQ(stream.overdue(seconds(18), seconds(15)), kNone);
  EXPECT_EQ(stream.overdue(seconds(19), seconds(15)), (std::pair<int, seconds>(0, seconds(15))));
}

TEST(CallClock, a_host_that_hangs_in_issuing_is_overdue) {
  Stream stream;
  stream.issue(seconds(0), seconds(1));
  stream.issue(kNever, kNever, false);
  EXPECT_EQ(stream.overdue(seconds(14), seconds(15)), kNone);
  EXPECT_EQ(stream.overdue(seconds(15), seconds(15)), (std::pair<int, seconds>(1, seconds(15))));
  EXPECT_EQ(stream.calls[1].asked, 0);  // its events may be those of an earlier call
}

TEST(CallClock, events_are_asked_only_where_it_counts) {
  Stream stream;
  for (int i = 0; i < 3; ++i) stream.issue(seconds(i), seconds(i + 1));
  for (int look = 0; look < 5; ++look) EXPECT_EQ(stream.overdue(seconds(1), seconds(15)), kNone);
  EXPECT_EQ(stream.calls[0].asked, 1);  // complete: never again
  EXPECT_EQ(stream.calls[1].asked, 6);  // complete? five times, begun? once
  EXPECT_EQ(stream.calls[2].asked, 0);  // not its turn
}

TEST(CallClock, serves_one_call_after_another) {
  CallClock clock;
  const auto yes = [] { return true; };
  const auto no = [] { return false; };
  clock.issue(kBegin);
  clock.launch();
  EXPECT_EQ(clock.look(kBegin, seconds(1), true, yes, yes), CallClock::State::complete);
  clock.issue(kBegin + seconds(100));
  EXPECT_EQ(clock.look(kBegin + seconds(100), seconds(1), true, no, no), CallClock::State::under_way);
  clock.launch();
  EXPECT_EQ(clock.look(kBegin + seconds(200), seconds(1), true, no, no), CallClock::State::under_way);
  EXPECT_EQ(clock.look(kBegin + seconds(201), seconds(1), true, yes, no), CallClock::State::under_way);
  EXPECT_EQ(clock.look(kBegin + seconds(202), seconds(1), true, yes, no), CallClock::State::running_overdue);
}

using Words = std::vector<std::uint32_t>;

// What a rank finds of itself in its own words does not count.
TEST(LatePeers, who_has_not_come_to_a_call_is_named) {
  const CallNumbers call{.rank = 0, .size = 4, .first = 7, .last = 7};
  EXPECT_EQ(late_peers(call, Words{0, 7, 6, 7}, Words{0, 6, 6, 6}), "rank 2 of the group has not come to it");
  EXPECT_EQ(late_peers(call, Words{0, 6, 5, 7}, Words{0, 6, 5, 6}), "ranks 1, 2 of the group have not come to it");
  EXPECT_EQ(late_peers(call, Words{0, 7, 7, 7}, Words{0, 7, 7, 6}), "the data of rank 3 of the group have not arrived");
  EXPECT_EQ(late_peers(call, Words{0, 7, 7, 7}, Words{0, 6, 7, 6}),
            "the data of ranks 1, 3 of the group have not arrived");
  EXPECT_EQ(late_peers(call, Words{0, 7, 8, 7}, Words{0, 7, 7, 7}), "");  // one has come to the next call
}

TEST(LatePeers, the_pieces_that_are_there_are_counted) {
  const CallNumbers call{.rank = 2, .size = 3, .first = 7, .last = 9};
  EXPECT_EQ(late_peers(call, Words{7, 6, 0}, Words{6, 6, 0}), "rank 1 of the group has not come to it");
  EXPECT_EQ(late_peers(call, Words{7, 7, 0}, Words{9, 8, 0}), "rank 1 of the group has given 2 of 3 chunks");
  EXPECT_EQ(late_peers(call, Words{7, 7, 0}, Words{6, 7, 0}),
            "rank 0 of the group has given 0 of 3 chunks, rank 1 of the group has given 1 of 3 chunks");
  EXPECT_EQ(late_peers(call, Words{7, 10, 0}, Words{9, 11, 0}), "");
}

// The ranks that wait in a turn for a late one are not late.
TEST(LatePeers, in_turns_the_first_turn_that_is_not_over_counts) {
  const CallNumbers call{.rank = 0, .size = 3, .first = 7, .last = 9, .in_turns = true};
  EXPECT_EQ(late_peers(call, Words{0, 6, 7}, Words{0, 6, 6}), "rank 1 of the group has not come to it");
  EXPECT_EQ(late_peers(call, Words{0, 7, 8}, Words{0, 7, 7}), "rank 1 of the group has given 1 of 3 chunks");
  EXPECT_EQ(late_peers(call, Words{0, 8, 8}, Words{0, 8, 7}), "rank 2 of the group has given 1 of 3 chunks");
  EXPECT_EQ(late_peers(call, Words{0, 9, 9}, Words{0, 9, 9}), "");
}

TEST(LatePeers, numbers_are_cyclic) {
  CallNumbers call{.rank = 0, .size = 2, .first = 0xffffffff, .last = 0xffffffff};
  call.extend_to(0);
  EXPECT_EQ(call.last, 0u);
  call.extend_to(0xffffffff);
  EXPECT_EQ(call.last, 0u);
  EXPECT_EQ(late_peers(call, Words{0, 0xfffffffe}, Words{0, 0xfffffffe}), "rank 1 of the group has not come to it");
  EXPECT_EQ(late_peers(call, Words{0, 0xffffffff}, Words{0, 0xffffffff}),
            "rank 1 of the group has given 1 of 2 chunks");
  EXPECT_EQ(late_peers(call, Words{0, 0xffffffff}, Words{0, 0}), "");
}

}  // namespace
}  // namespace shard8::comm::tests
