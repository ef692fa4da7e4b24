// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "project/report.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "project/projection.hpp"

namespace shard8::project {
namespace {

/// The share of wall-clock time that is kept, from failures that are drawn: a training of so many intervals, each with
/// a checkpoint that training waits for, on a machine that fails at exponentially distributed times.
double simulated_goodput(const Failures& f, double interval_s, int intervals) {
  std::mt19937_64 random(1);
  std::exponential_distribution<double> next(1 / f.between_s);
  double clock = 0, failure = next(random);
  for (int done = 0; done < intervals;) {
    const double end = clock + interval_s + f.hold_up_s;
    if (end <= failure) {
      clock = end;
      ++done;
      continue;
    }
    clock = failure;
    for (failure = clock + next(random); clock + f.restart_s > failure; failure = clock + next(random)) clock = failure;
    clock += f.restart_s;
  }
  return intervals * interval_s / clock;
}

TEST(ProjectGoodput, is_that_of_drawn_failures) {
  for (const double between : {3600.0, 20000.0, 200000.0})
    for (const double interval : {300.0, 1800.0}) {
      const Failures f{.between_s = between, .hold_up_s = 40, .durable_s = 40, .restart_s = 300};
      EXPECT_NEAR(goodput(f, interval), simulated_goodput(f, interval, 40000), 0.01) << between << ' ' << interval;
    }
}

TEST(ProjectGoodput, the_best_interval_is_better_than_its_neighbours_and_near_youngs) {
  const Failures f{.between_s = 50000, .hold_up_s = 30, .durable_s = 30, .restart_s = 200};
  const double best = best_interval_s(f);
  EXPECT_GT(goodput(f, best), goodput(f, 0.9 * best));
  EXPECT_GT(goodput(f, best), goodput(f, 1.1 * best));
  EXPECT_NEAR(best, std::sqrt(2 * 30 * 50000.0), 0.05 * best);
}

TEST(ProjectGoodput, a_checkpoint_that_is_durable_later_costs_what_is_trained_again) {
  Failures f{.between_s = 10000, .hold_up_s = 5, .durable_s = 5, .restart_s = 100};
  const double at_once = goodput(f, 600);
  f.durable_s = 505;
  EXPECT_NEAR(at_once / goodput(f, 600), std::exp(500.0 / 10000), 1e-12);
}

/// As simulated_goodput(), where training goes on while a checkpoint becomes durable, and waits for it where the next
/// one is due before.
double simulated_beside(const Failures& f, double interval_s, int intervals) {
  std::mt19937_64 random(1);
  std::exponential_distribution<double> next(1 / f.between_s);
  double clock = 0, failure = next(random);
  int durable = 0;  // intervals that are never trained again
  while (durable < intervals) {
    int trained = durable, written = durable;  // `written`: of the checkpoint that is being written
    double ready = -1;
    for (double now = clock;;) {
      now += interval_s;
      ++trained;
      if (ready >= 0) now = std::max(now, ready);
      if (ready >= 0 && ready <= failure) durable = written;
      if (now > failure || durable >= intervals) {
        clock = std::min(now, failure);
        break;
      }
      ready = now + f.durable_s;
      written = trained;
      now += f.hold_up_s;
    }
    if (durable >= intervals) break;
    for (failure = clock + next(random); clock + f.restart_s > failure; failure = clock + next(random)) clock = failure;
    clock += f.restart_s;
  }
  return intervals * interval_s / clock;
}

TEST(ProjectGoodput, one_checkpoint_is_written_at_a_time) {
  for (const double interval : {60.0, 300.0, 900.0, 1800.0, 4000.0}) {
    const Failures f{.between_s = 20000, .hold_up_s = 40, .durable_s = 1200, .restart_s = 300};
    EXPECT_NEAR(goodput(f, interval), simulated_beside(f, interval, 40000), 0.01) << interval;
    EXPECT_DOUBLE_EQ(wait_s(f, interval), std::max(0.0, 1160 - interval));
  }
  // A checkpoint after every step of 6 s, of which each takes ten hours to become durable.
  const Failures f{.between_s = 2e7, .hold_up_s = 0, .durable_s = 36000, .restart_s = 300};
  EXPECT_NEAR(goodput(f, 6), 6 / 36000.0, 1e-6);
}

TEST(ProjectGoodput, no_interval_is_better_than_the_best) {
  constexpr double kNothing = 1e-300;  // what is smaller has lost its digits
  std::mt19937_64 random(7);
  const auto any = [&](double low, double high) {
    return std::exp(std::uniform_real_distribution<>(std::log(low), std::log(high))(random));
  };
  for (int i = 0; i < 20000; ++i) {
    Failures f{.between_s = any(1, 1e9), .hold_up_s = i % 5 == 0 ? 0 : any(1e-3, 1e5), .restart_s = any(1e-2, 1e5)};
    f.durable_s = i % 3 == 0 ? f.hold_up_s : f.hold_up_s + any(1e-3, 1e6);
    const double step_s = any(1e-3, 1e3), steps = best_steps(f, step_s);
    ASSERT_GE(steps, 1);
    const double best = goodput(f, best_interval_s(f)), best_of_steps = goodput(f, steps * step_s);
    ASSERT_LE(best, 1 + 1e-12);
    for (int j = 0; j < 20; ++j) {
      const double other = any(1e-2, 1e9);
      EXPECT_GE(best + kNothing, (1 - 1e-9) * goodput(f, other)) << i << ' ' << other;
      const double other_steps = j < 4 ? std::max(1.0, steps + j - 2) : std::floor(any(1, 1e6));
      EXPECT_GE(best_of_steps + kNothing, (1 - 1e-9) * goodput(f, other_steps * step_s)) << i << ' ' << other_steps;
    }
    if (HasFailure())
      FAIL() << f.between_s << ' ' << f.hold_up_s << ' ' << f.durable_s << ' ' << f.restart_s << ' ' << step_s;
  }
}

TEST(ProjectSpread, the_expected_largest_of_normal_draws) {
  EXPECT_DOUBLE_EQ(expected_largest(1), 0);
  EXPECT_NEAR(expected_largest(2), 0.5642, 0.03);  // exact values: Harter, Biometrika 48, 1961
  EXPECT_NEAR(expected_largest(10), 1.5388, 0.02);
  EXPECT_NEAR(expected_largest(100), 2.5076, 0.02);
  EXPECT_NEAR(expected_largest(400), 2.9682, 0.02);
}

}  // namespace
}  // namespace shard8::project
