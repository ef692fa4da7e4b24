// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "train/stopping.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"

namespace shard8 {
namespace {

using train::ClockTimes;
using train::LongestTimes;
using train::TimeLimit;
using train::TimeLimits;

struct Case {
  const char* what;
  TimeLimits limits;
  ClockTimes now;
  LongestTimes longest;
  TimeLimit expected;
};

// Seconds since 1970 when the limits were made, and on the steady clock.
constexpr double kDay = 1.7e9, kBegun = 3;
constexpr ClockTimes kStart{kBegun, kDay};
constexpr ClockTimes at(double seconds, double system_set_by = 0) {
  return {kBegun + seconds, kDay + seconds + system_set_by};
}

TEST(TimeLeft, OfSimulatedClocks) {
  const Case cases[] = {
      {"no limit", {.start = kStart}, at(1e9), {1e6, 1e6}, TimeLimit::none},
      // 100 s from the begin of the process, which was 3 s before the limits were made.
      {"before the limit", {.run_s = 100, .margin_s = 10, .start = kStart}, at(86.9), {}, TimeLimit::none},
      {"at the margin", {.run_s = 100, .margin_s = 10, .start = kStart}, at(87), {}, TimeLimit::run},
      {"long over", {.run_s = 100, .margin_s = 10, .start = kStart}, at(1e6), {}, TimeLimit::run},
      {"a margin longer than the limit", {.run_s = 100, .margin_s = 1000, .start = kStart}, at(0), {}, TimeLimit::run},
      {"a given margin is all", {.run_s = 100, .margin_s = 10, .start = kStart}, at(80), {50, 50}, TimeLimit::none},
      // Not given: 1.5 · (4 + 16) s.
      {"before the measured margin", {.run_s = 100, .start = kStart}, at(66.9), {4, 16}, TimeLimit::none},
      {"at the measured margin", {.run_s = 100, .start = kStart}, at(67), {4, 16}, TimeLimit::run},
      {"the steps are not known yet", {.run_s = 100, .start = kStart}, at(96.9), {}, TimeLimit::none},
      {"before the job's end", {.job_end = kDay + 50, .margin_s = 10, .start = kStart}, at(39.9), {}, TimeLimit::none},
      {"at the job's end", {.job_end = kDay + 50, .margin_s = 10, .start = kStart}, at(40), {}, TimeLimit::job_end},
      {"the job ends first",
       {.run_s = 100, .job_end = kDay + 50, .margin_s = 1, .start = kStart},
       at(49),
       {},
       TimeLimit::job_end},
      {"the run ends first",
       {.run_s = 20, .job_end = kDay + 50, .margin_s = 1, .start = kStart},
       at(16),
       {},
       TimeLimit::run},
      // The system's clock is set: the deck's limit is not moved, the job's end comes never later than at the start.
      {"clock back, deck", {.run_s = 100, .margin_s = 10, .start = kStart}, at(87, -3600), {}, TimeLimit::run},
      {"clock forward, deck", {.run_s = 100, .margin_s = 10, .start = kStart}, at(86, 3600), {}, TimeLimit::none},
      {"clock back, job",
       {.job_end = kDay + 50, .margin_s = 10, .start = kStart},
       at(40, -3600),
       {},
       TimeLimit::job_end},
      {"clock back, job, in time",
       {.job_end = kDay + 50, .margin_s = 10, .start = kStart},
       at(39, -3600),
       {},
       TimeLimit::none},
      {"clock forward, job",
       {.job_end = kDay + 50, .margin_s = 10, .start = kStart},
       at(20, 25),
       {},
       TimeLimit::job_end},
  };
  for (const Case& c : cases) EXPECT_EQ(reached(c.limits, c.now, c.longest), c.expected) << c.what;
}

TEST(TimeLeft, JobEndIsAWholeNumberThatIsToCome) {
  EXPECT_EQ(train::job_end(nullptr, 100), std::nullopt);
  EXPECT_EQ(train::job_end("", 100), std::nullopt);
  EXPECT_EQ(train::job_end("101", 100), 101);
  EXPECT_EQ(train::job_end("100", 100), std::nullopt);
  EXPECT_EQ(train::job_end("4294967294", 1.7e9), 4294967294.0);  // of a job without a limit
  for (const char* text : {"soon", "1e9", "12 ", " 12", "0x10", "12.5", "99999999999999999999"}) {
    EXPECT_THROW(static_cast<void>(train::job_end(text, 100)), base::Error) << text;
  }
}

}  // namespace
}  // namespace shard8
