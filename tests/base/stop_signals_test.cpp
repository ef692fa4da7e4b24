// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "base/stop_signals.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include "base/error.hpp"

namespace shard8 {
namespace {

using base::StopSignals;

// Raises `second` after `pause` behind SIGUSR1.
void raise_two(int second, std::chrono::milliseconds pause) {
  ::kill(::getpid(), SIGUSR1);
  std::this_thread::sleep_for(pause);
  ::kill(::getpid(), second);
}

void (*handler_of(int signal))(int) {
  struct sigaction action {};
  ::sigaction(signal, nullptr, &action);
  return action.sa_handler;
}

TEST(StopSignals, RemembersTheFirst) {
  for (const int signal : StopSignals::kSignals) {
    StopSignals signals;
    EXPECT_EQ(signals.first(), 0);
    ::kill(::getpid(), signal);
    EXPECT_EQ(signals.first(), signal);
  }
}

TEST(StopSignals, RestoresWhatWasThereBefore) {
  ::signal(SIGPIPE, SIG_DFL);  // whoever starts tests may ignore it
  const auto before = handler_of(SIGTERM);
  {
    const StopSignals signals;
    EXPECT_NE(handler_of(SIGTERM), before);
    EXPECT_THROW(StopSignals(), base::Error);  // handlers are the process'
  }
  for (const int signal : StopSignals::kSignals) EXPECT_EQ(handler_of(signal), SIG_DFL);
  EXPECT_EQ(handler_of(SIGPIPE), SIG_DFL);
}

// A library that is initialised later may install a handler of its own.
TEST(StopSignals, TakesSignalsBack) {
  StopSignals signals;
  ::signal(SIGUSR1, [](int) { ::_exit(1); });
  signals.take_back();
  ::kill(::getpid(), SIGUSR1);
  EXPECT_EQ(signals.first(), SIGUSR1);
}

// What ends a process is tested in a child.
TEST(StopSignalsDeathTest, ASecondOneEndsTheProcess) {
  EXPECT_EXIT(
      {
        const StopSignals signals;
        raise_two(SIGINT, StopSignals::kSameRequest);
        for (;;) ::pause();
      },
      ::testing::ExitedWithCode(5), "^shard8: ended at once by a second signal, SIGINT\n$");
}

TEST(StopSignalsDeathTest, ASecondOneCallsTheFunction) {
  EXPECT_EXIT(
      {
        StopSignals signals;
        signals.on_second([](const std::string& what) {
          std::fprintf(stderr, "told: %s\n", what.c_str());
          ::_exit(9);
        });
        raise_two(SIGTERM, StopSignals::kSameRequest);
        for (;;) ::pause();
      },
      ::testing::ExitedWithCode(9), "^told: ended at once by a second signal, SIGTERM\n$");
}

TEST(StopSignals, TakesAnEarlyRepeatForTheSameRequest) {
  const StopSignals signals;
  raise_two(SIGTERM, std::chrono::milliseconds(0));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // this process lives
  EXPECT_EQ(signals.first(), SIGUSR1);
}

// Every write to a pipe that nobody reads raises it again, while the run writes its last checkpoint.
TEST(StopSignals, ABrokenPipeHangsUpButIsNoFirstSignal) {
  ::signal(SIGPIPE, SIG_DFL);
  {
    StopSignals signals;
    for (int i = 0; i < 2; ++i) {
      ::kill(::getpid(), SIGPIPE);
      std::this_thread::sleep_for(StopSignals::kSameRequest);
    }
    EXPECT_EQ(signals.first(), SIGHUP);
    ::kill(::getpid(), SIGTERM);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // this process lives
    EXPECT_EQ(signals.first(), SIGTERM);
    signals.ignore();
    EXPECT_EQ(handler_of(SIGPIPE), SIG_IGN);
  }
  for (const int signal : StopSignals::kSignals) ::signal(signal, SIG_DFL);
  ::signal(SIGPIPE, SIG_DFL);
}

TEST(StopSignals, KeepsABrokenPipeIgnored) {
  ::signal(SIGPIPE, SIG_IGN);
  {
    const StopSignals signals;
    ::kill(::getpid(), SIGPIPE);
    EXPECT_EQ(signals.first(), 0);
  }
  EXPECT_EQ(handler_of(SIGPIPE), SIG_IGN);
  ::signal(SIGPIPE, SIG_DFL);
}

TEST(StopSignals, Names) {
  EXPECT_EQ(base::signal_name(SIGTERM), "SIGTERM");
  EXPECT_EQ(base::signal_name(SIGUSR1), "SIGUSR1");
  EXPECT_EQ(base::signal_name(SIGINT), "SIGINT");
  EXPECT_EQ(base::signal_name(SIGHUP), "SIGHUP");
  EXPECT_EQ(base::signal_name(40), "signal 40");
}

}  // namespace
}  // namespace shard8
