// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/libraries.hpp"

#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <vector>

#include "tests/support/execution.hpp"

namespace shard8::tests {
namespace {

using Clock = std::chrono::steady_clock;

template <class Action>
double seconds_of(const Action& action) {
  const auto begin = Clock::now();
  action();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Seconds by which a thread of this machine loses its core: how late a loop that looks at the clock, and gives its
/// core away as a waiter does, ends at worst.
double late_of_a_plain_loop(double seconds) {
  double late = 0, last = 0;
  const auto begin = Clock::now();
  while (last < seconds) {
    ::timespec time{0, 20'000};
    ::clock_nanosleep(CLOCK_MONOTONIC, 0, &time, nullptr);
    const double now = std::chrono::duration<double>(Clock::now() - begin).count();
    late += std::max(0.0, now - last - 1e-3);  // a wait makes up for at most 1 ms
    last = now;
  }
  return late;
}

constexpr int kRounds = 8;  // chosen: other programs have to disturb all of them

TEST(Waiter, a_thousand_short_waits_add_up) {
  const tensor::Exec& exec = tests::exec();
  std::mt19937 random(7);
  std::uniform_real_distribution<double> drawn(20e-6, 300e-6);
  std::vector<double> waits(1000);
  double wanted = 0;
  for (double& wait : waits) wanted += wait = drawn(random);
  kernels::Waiter waiter(exec, 0);
  double nearest = 1;
  for (int round = 0; round < kRounds && nearest > 0.02; ++round) {
    const double lost = late_of_a_plain_loop(wanted);
    const double took = seconds_of([&] {
      for (const double wait : waits) waiter.wait(exec, wait);
    });
    EXPECT_GE(took, 0.98 * wanted) << "it waits too little";
    nearest = std::min(nearest, std::max(0.0, took - wanted - lost) / wanted);
  }
  EXPECT_LE(nearest, 0.02);
}

TEST(Waiter, no_time_takes_none) {
  const tensor::Exec& exec = tests::exec();
  kernels::Waiter waiter(exec, 0);
  double least = 1;
  for (int round = 0; round < kRounds; ++round)
    least = std::min(least, seconds_of([&] {
                       for (int i = 0; i < 1000; ++i) {
                         waiter.wait(exec, 0);
                         waiter.wait(exec, -1);
                       }
                     }));
  EXPECT_LT(least, 1e-3);
  EXPECT_EQ(waiter.memory(), 0u);
}

TEST(Waiter, reads_at_the_rate_that_is_asked) {
  const tensor::Exec& exec = tests::exec();
  for (const double rate : {1e8, 1e9}) {
    kernels::Waiter waiter(exec, rate);
    EXPECT_GT(waiter.memory(), std::size_t{1} << 20);
    double nearest = 1;
    for (int round = 0; round < kRounds && nearest > 0.05; ++round) {
      const std::uint64_t before = waiter.bytes_read();
      const double took = seconds_of([&] {
        for (int i = 0; i < 10; ++i) waiter.wait(exec, 20e-3);
      });
      const double read = static_cast<double>(waiter.bytes_read() - before);
      EXPECT_LE(read, 1.05 * rate * took) << rate << ": it reads too much";
      nearest = std::min(nearest, std::max(0.0, 1 - read / (rate * took)));
    }
    EXPECT_LE(nearest, 0.05) << rate;
  }
}

}  // namespace
}  // namespace shard8::tests
