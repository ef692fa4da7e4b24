// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "project/costs.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "project/projection.hpp"

namespace shard8::project {
namespace {

/// The share of wall-clock time that is kept, from failures that are drawn: a training of so many intervals, each with a
/// checkpoint that training waits for, on a machine that fails at exponentially distributed times.
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

TEST(ProjectSpread, the_expected_largest_of_normal_draws) {
  EXPECT_DOUBLE_EQ(expected_largest(1), 0);
  EXPECT_NEAR(expected_largest(2), 0.5642, 0.03);  // exact values: Harter, Biometrika 48, 1961
  EXPECT_NEAR(expected_largest(10), 1.5388, 0.02);
  EXPECT_NEAR(expected_largest(100), 2.5076, 0.02);
  EXPECT_NEAR(expected_largest(400), 2.9682, 0.02);
}

}  // namespace
}  // namespace shard8::project
