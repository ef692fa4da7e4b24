// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "train/stopping.hpp"

#include <gtest/gtest.h>
#include <signal.h>

#include "base/error.hpp"
#include "tests/support/cases.hpp"

namespace shard8 {
namespace {

using train::StopReason;
using Kind = StopReason::Kind;

comm::Communicator world() { return {MPI_COMM_WORLD, "world", comm::Waiting::yield, nullptr}; }

/// Decisions of a run whose clock and signal a test sets.
class Simulated {
 public:
  explicit Simulated(const deck::RunConfig& run, std::optional<double> job_end = {})
      : world_(world()), stopping_(world_, run, {[this] { return signal; }, [this] { return now; }, job_end}) {}

  /// Trains steps of so many seconds each until the run stops or has trained all.
  StopReason train(int steps, double seconds) {
    for (int s = 0; s < steps; ++s) {
      now.steady += seconds;
      now.since_1970 += seconds;
      stopping_.step_over(seconds);
      ++trained;
      if (const StopReason reason = stopping_.agree()) return reason;
    }
    return {};
  }
  int rank() const { return world_.rank(); }
  int ranks() const { return world_.size(); }

  int signal = 0;
  train::ClockTimes now{.steady = 10, .since_1970 = 1e9};
  int trained = 0;

 private:
  comm::Communicator world_;
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

// Whichever rank gets a signal, and whatever another one gets.
TEST(Stopping, OnEveryRankForASignalToOne) {
  for (int victim = 0; victim < Simulated({}).ranks(); ++victim) {
    Simulated run({.steps = 100, .stop_after = 4});
    EXPECT_FALSE(run.train(3, 1));
    if (run.rank() == victim) run.signal = SIGUSR1;
    EXPECT_EQ(run.train(100, 1), (StopReason{Kind::signal, SIGUSR1}));  // not stop_after, which comes at the same step
    EXPECT_EQ(run.trained, 4);
  }
  Simulated run({.steps = 100});
  run.signal = run.rank() == 0 ? SIGINT : SIGTERM;
  EXPECT_EQ(run.train(100, 1), (StopReason{Kind::signal, run.ranks() == 1 ? SIGINT : SIGTERM}));
}

TEST(Stopping, ForTheTimeOfTheSlowestRank) {
  Simulated run({.steps = 100, .time_limit_min = 1, .margin_s = 5});
  const bool slow = run.rank() == run.ranks() - 1;
  EXPECT_EQ(run.train(100, slow ? 9 : 1).kind, Kind::time_limit);
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

TEST(StopReason, Names) {
  EXPECT_EQ(name_of(StopReason{}), "");
  EXPECT_EQ(name_of(StopReason{Kind::stop_after}), "run.stop_after");
  EXPECT_EQ(name_of(StopReason{Kind::time_limit}), "run.time_limit_min");
  EXPECT_EQ(name_of(StopReason{Kind::job_end}), "SLURM_JOB_END_TIME");
  EXPECT_EQ(name_of(StopReason{Kind::signal, SIGTERM}), "SIGTERM");
}

}  // namespace
}  // namespace shard8
