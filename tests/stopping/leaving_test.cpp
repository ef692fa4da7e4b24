// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "app/process.hpp"

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

/// A run's process: signals come from before its handlers go until they are gone.
[[noreturn]] void end_process_among_signals() {
  std::atomic<int> sent = 0;
  std::atomic<bool> gone = false;
  std::thread sender;
  {
    StopRequests requests;
    requests.leave_launcher();
    sender = std::thread([&] {
      for (; !gone; ++sent)
        for (const int signal : base::StopSignals::kSignals) ::kill(::getpid(), signal);
    });
    while (sent == 0) std::this_thread::yield();
  }
  gone = true;
  sender.join();
  ::_exit(75);
}

// As srun --kill-on-bad-exit sends them to ranks that leave later than the first one.
TEST(Leaving, ignores_signals) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(end_process(true), testing::ExitedWithCode(75), "");
}

TEST(Leaving, ignores_signals_while_the_handlers_go) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(end_process_among_signals(), testing::ExitedWithCode(75), "");
}

TEST(Leaving, without_it_a_signal_ends_the_process) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(end_process(false), testing::KilledBySignal(base::StopSignals::kSignals[0]), "");
}

}  // namespace
}  // namespace shard8::app::tests
