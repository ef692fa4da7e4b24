// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <signal.h>

#include <cstddef>
#include <iterator>
#include <optional>

#include "base/error.hpp"
#include "train/stopping.hpp"

namespace shard8 {
namespace {

using train::StopReason;
using Kind = StopReason::Kind;

/// Decisions of a rank whose clock and signal a test sets.
/// The keys of run that end it.
struct Limits {
  std::int64_t steps = 0, stop_after = 0;
  double time_limit_min = 0, margin_s = 0;
};
deck::RunConfig limits(const Limits& of) {
  deck::RunConfig run;
  run.steps = of.steps;
  run.stop_after = of.stop_after;
  run.time_limit_min = of.time_limit_min;
  run.margin_s = of.margin_s;
  return run;
}

class Simulated {
 public:
  explicit Simulated(const deck::RunConfig& run, std::optional<double> job_end = {})
      : stopping_(run, {[this] { return signal; }, [this] { return now; }, job_end}) {}

  /// Trains steps of so many seconds each until the run stops or has trained all.
  StopReason train(int steps, double seconds) {
    for (int s = 0; s < steps; ++s) {
      stopping_.begin_step();
      now.steady += seconds;
      now.since_1970 += seconds;
      ++trained;
      if (const StopReason reason = stopping_.end_step()) return reason;
    }
    return {};
  }
  train::Stopping& stopping() { return stopping_; }

  int signal = 0;
  train::ClockTimes now{.steady = 10, .since_1970 = 1e9};
  int trained = 0;

 private:
  train::Stopping stopping_;
};

TEST(Stopping, NeverWithoutAReason) {
  Simulated run(limits({.steps = 100}));
  EXPECT_FALSE(run.train(100, 1e6));
  EXPECT_EQ(run.trained, 100);
}

TEST(Stopping, AfterStepsOfThisRun) {
  Simulated run(limits({.steps = 100, .stop_after = 7}));
  EXPECT_EQ(run.train(100, 1).kind, Kind::stop_after);
  EXPECT_EQ(run.trained, 7);
}

TEST(Stopping, AfterTheStepInWhichASignalCame) {
  Simulated run(limits({.steps = 100, .stop_after = 4}));
  EXPECT_FALSE(run.train(3, 1));
  run.signal = SIGUSR1;
  EXPECT_EQ(run.train(100, 1), (StopReason{Kind::signal, SIGUSR1}));  // not stop_after, which comes at the same step
  EXPECT_EQ(run.trained, 4);
}

TEST(Stopping, BeforeTheTimeIsOver) {
  Simulated run(limits({.steps = 100, .time_limit_min = 1, .margin_s = 5}));
  EXPECT_EQ(run.train(100, 9).kind, Kind::time_limit);
  EXPECT_EQ(run.trained, 5);  // 10 + 5 · 9 s
}

TEST(Stopping, BeforeTheEndOfTheJob) {
  Simulated run(limits({.steps = 100, .margin_s = 30}), 1e9 + 100);
  EXPECT_EQ(run.train(100, 10).kind, Kind::job_end);
  EXPECT_EQ(run.trained, 7);
}

// A margin that is not given: 1.5 times the longest step and the longest write.
TEST(Stopping, MarginFollowsTheLongestStep) {
  Simulated run(limits({.steps = 100, .time_limit_min = 2}));
  EXPECT_FALSE(run.train(1, 20));  // until 30 s; the margin is 30 s
  EXPECT_EQ(run.train(100, 1).kind, Kind::time_limit);
  EXPECT_EQ(run.now.steady, 90);
}

// A step that is long while it lasts counts, too: the margin is 60 s after the first one.
TEST(Stopping, MarginCountsTheStepThatEnds) {
  Simulated run(limits({.steps = 100, .time_limit_min = 1.5}));
  EXPECT_EQ(run.train(1, 40).kind, Kind::time_limit);
}

TEST(Stopping, MarginFollowsTheLongestWrite) {
  Simulated run(limits({.steps = 100, .time_limit_min = 2}));
  EXPECT_FALSE(run.train(1, 20));
  run.stopping().checkpoint_written(20);  // 1.5 · (20 + 20) s
  EXPECT_EQ(run.train(100, 1).kind, Kind::time_limit);
  EXPECT_EQ(run.now.steady, 60);
}

TEST(StopReason, OfTheLargestNumberCounts) {
  const StopReason reasons[] = {{},
                                {Kind::stop_after},
                                {Kind::time_limit},
                                {Kind::job_end},
                                {Kind::signal, SIGHUP},
                                {Kind::signal, SIGINT},
                                {Kind::signal, SIGUSR1},
                                {Kind::signal, SIGTERM}};
  EXPECT_EQ(train::code_of({}), 0U);
  for (std::size_t i = 0; i < std::size(reasons); ++i) {
    EXPECT_EQ(train::reason_of(train::code_of(reasons[i])), reasons[i]);
    if (i > 0) {
      EXPECT_LT(train::code_of(reasons[i - 1]), train::code_of(reasons[i]));
    }
  }
}

TEST(StopReason, Names) {
  EXPECT_EQ(name_of(StopReason{}), "");
  EXPECT_EQ(name_of(StopReason{Kind::stop_after}), "run.stop_after");
  EXPECT_EQ(name_of(StopReason{Kind::time_limit}), "run.time_limit_min");
  EXPECT_EQ(name_of(StopReason{Kind::job_end}), "SLURM_JOB_END_TIME");
  EXPECT_EQ(name_of(StopReason{Kind::signal, SIGTERM}), "SIGTERM");
}

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
