// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "train/stopping.hpp"

#include <gtest/gtest.h>
#include <signal.h>

#include <cstddef>
#include <iterator>
#include <optional>

namespace shard8 {
namespace {

using train::StopReason;
using Kind = StopReason::Kind;

/// Decisions of a rank whose clock and signal a test sets.
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
  Simulated run({.steps = 100});
  EXPECT_FALSE(run.train(100, 1e6));
  EXPECT_EQ(run.trained, 100);
}

TEST(Stopping, AfterStepsOfThisRun) {
  Simulated run({.steps = 100, .stop_after = 7});
  EXPECT_EQ(run.train(100, 1).kind, Kind::stop_after);
  EXPECT_EQ(run.trained, 7);
}

TEST(Stopping, AfterTheStepInWhichASignalCame) {
  Simulated run({.steps = 100, .stop_after = 4});
  EXPECT_FALSE(run.train(3, 1));
  run.signal = SIGUSR1;
  EXPECT_EQ(run.train(100, 1), (StopReason{Kind::signal, SIGUSR1}));  // not stop_after, which comes at the same step
  EXPECT_EQ(run.trained, 4);
}

TEST(Stopping, BeforeTheTimeIsOver) {
  Simulated run({.steps = 100, .time_limit_min = 1, .margin_s = 5});
  EXPECT_EQ(run.train(100, 9).kind, Kind::time_limit);
  EXPECT_EQ(run.trained, 5);  // 10 + 5 · 9 s
}

TEST(Stopping, BeforeTheEndOfTheJob) {
  Simulated run({.steps = 100, .margin_s = 30}, 1e9 + 100);
  EXPECT_EQ(run.train(100, 10).kind, Kind::job_end);
  EXPECT_EQ(run.trained, 7);
}

// A margin that is not given: 1.5 times the longest step and the longest write.
TEST(Stopping, MarginFollowsTheLongestStep) {
  Simulated run({.steps = 100, .time_limit_min = 2});
  EXPECT_FALSE(run.train(1, 20));  // until 30 s; the margin is 30 s
  EXPECT_EQ(run.train(100, 1).kind, Kind::time_limit);
  EXPECT_EQ(run.now.steady, 90);
}

// A step that is long while it lasts counts, too: the margin is 60 s after the first one.
TEST(Stopping, MarginCountsTheStepThatEnds) {
  Simulated run({.steps = 100, .time_limit_min = 1.5});
  EXPECT_EQ(run.train(1, 40).kind, Kind::time_limit);
}

TEST(Stopping, MarginFollowsTheLongestWrite) {
  Simulated run({.steps = 100, .time_limit_min = 2});
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

}  // namespace
}  // namespace shard8
