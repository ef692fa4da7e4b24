// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

#include "app/stop.hpp"

namespace shard8::app::tests {
namespace {

/// A run's process: when its handlers are gone, all signals come that stop a run.
[[noreturn]] void end_process(bool leave) {
  {
    StopRequests requests;
    if (leave) requests.leave_launcher();
  }
  for (const int signal : base::StopSignals::kSignals) std::raise(signal);
  ::_exit(75);
}

// As srun --kill-on-bad-exit sends them to ranks that leave later than the first one.
TEST(Leaving, ignores_signals) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(end_process(true), testing::ExitedWithCode(75), "");
}

TEST(Leaving, without_it_a_signal_ends_the_process) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(end_process(false), testing::KilledBySignal(base::StopSignals::kSignals[0]), "");
}

}  // namespace
}  // namespace shard8::app::tests
