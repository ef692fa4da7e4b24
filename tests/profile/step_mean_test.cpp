// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/compare/comparison.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

namespace shard8::profile::tests {
namespace {

using Verdict = ComparedFigure::Verdict;

constexpr int kPairs = 200;
constexpr double kSpread = 0.05;

/// A first-order autoregression with the standard deviation kSpread · mean, and the correlation `r` of neighbours.
class Machine {
 public:
  explicit Machine(double r) : r_(r) {}

  std::vector<double> series(int length, double mean) {
    std::vector<double> values;
    double x = normal_(random_);
    for (int i = 0; i < length; ++i) {
      values.push_back(mean * (1 + kSpread * x));
      x = r_ * x + std::sqrt(1 - r_ * r_) * normal_(random_);
    }
    return values;
  }
  /// Steps of about 100 ms with four phases, which have the same spread each.
  RecordedRun run(int length, double factor = 1) {
    RecordedRun run{.name = "run", .has_summary = true, .ranks = 1, .tokens_per_step = 1000};
    run.known = mean_of_steps(series(length, 0.1 * factor));
    run.mean_s = run.known->mean;
    run.tokens_per_s = 1000 / run.mean_s;
    for (const auto& [name, share] : {std::pair{"data", 0.01}, {"forward", 0.3}, {"backward", 0.6}, {"other", 0.09}}) {
      RecordedRun::Time& phase = run.phases.emplace_back(RecordedRun::Time{name});
      phase.known = mean_of_steps(series(length, 0.1 * share * factor));
      phase.mean_s = phase.known->mean;
    }
    return run;
  }

 private:
  double r_;
  std::mt19937_64 random_{20261126};
  std::normal_distribution<double> normal_;
};

bool differs(const Comparison& c) {
  return std::any_of(c.kinds.begin(), c.kinds.end(), [](const ComparedKind& kind) {
    return std::any_of(kind.figures.begin(), kind.figures.end(), [](const ComparedFigure& f) {
      return f.verdict != Verdict::within && f.verdict != Verdict::not_judged;
    });
  });
}

/// Whether the mean of the steps is longer in b, for the limit `percent`.
bool is_longer(const Comparison& c) {
  const ComparedFigure& mean = c.kinds.at(0).figures.at(0);
  EXPECT_EQ(mean.name, "mean");
  return mean.verdict == Verdict::slower || mean.verdict == Verdict::worse;
}

RecordedRun run_of(const std::vector<double>& steps) {
  RecordedRun run{.name = "run"};
  run.known = mean_of_steps(steps);
  run.mean_s = run.known->mean;
  return run;
}

TEST(Errors, quantiles_of_student) {
  // Abramowitz and Stegun, table 26.10.
  EXPECT_NEAR(student_quantile(0.95, 1), 12.706, 5e-4);
  EXPECT_NEAR(student_quantile(0.95, 10), 2.228, 5e-4);
  EXPECT_NEAR(student_quantile(0.99, 5), 4.032, 5e-4);
  EXPECT_NEAR(student_quantile(0.5, 3), 0.765, 5e-4);
  EXPECT_NEAR(student_quantile(0.998, 30), 3.385, 5e-4);
  EXPECT_NEAR(student_quantile(0.95, 1e7), 1.960, 5e-4);
  EXPECT_EQ(student_within(0, 4), 0);
  for (const double within : {0.1, 0.9, 0.999})
    EXPECT_NEAR(student_within(student_quantile(within, 7.5), 7.5), within, 1e-10);
}

TEST(Errors, shrink_with_the_number_of_steps_and_grow_with_their_correlation) {
  const auto error = [](double r, int length) {
    Machine machine(r);
    double sum = 0;
    for (int i = 0; i < kPairs; ++i) sum += std::pow(mean_of_steps(machine.series(length, 1))->error, 2);
    return std::sqrt(sum / kPairs);
  };
  for (const double r : {0.0, 0.5, 0.8}) {
    const double right = kSpread / std::sqrt(1000.0) * std::sqrt((1 + r) / (1 - r));
    EXPECT_GT(error(r, 1000), 0.95 * right) << r;
    EXPECT_LT(error(r, 1000), 1.25 * right) << r;
  }
  EXPECT_NEAR(error(0.3, 400) / error(0.3, 1600), 2, 0.2);
}

TEST(Errors, of_few_and_of_equal_steps) {
  EXPECT_FALSE(mean_of_steps(std::vector{1.0, 2.0, 3.0}));
  const auto four = mean_of_steps(std::vector{1.0, 1.0, 2.0, 2.0});
  ASSERT_TRUE(four);
  EXPECT_EQ(four->mean, 1.5);
  EXPECT_EQ(four->freedom, 1);
  const StepMean equal = *mean_of_steps(std::vector<double>(20, 0.25));
  EXPECT_EQ(equal.error, 0);
  EXPECT_EQ(difference_of(equal, equal).confidence(), 0);
  EXPECT_EQ(difference_of(equal, equal.of(0.26)).confidence(), 1);
  EXPECT_EQ(difference_of(equal, equal.of(0.26)).margin(0.95), 0);
}

TEST(Pairs, of_one_distribution_are_called_different_in_at_most_5_percent) {
  for (const auto& [r, length] :
       {std::pair{0.0, 20}, {0.3, 20}, {0.5, 20}, {0.0, 200}, {0.3, 200}, {0.5, 200}, {0.8, 200}, {0.8, 1000}}) {
    Machine machine(r);
    int different = 0;
    for (int i = 0; i < kPairs; ++i) {
      const RecordedRun a = machine.run(length);
      different += differs(compare_runs(a, machine.run(length), {.percent = 0})) ? 1 : 0;
    }
    EXPECT_LE(different, kPairs / 20) << "correlation " << r << ", " << length << " steps";
  }
}

/// A stronger correlation takes more steps: 200 with a correlation of 0.5 know a mean to 1.2 % at best.
TEST(Pairs, a_slowdown_of_3_percent_is_found_in_95_percent) {
  for (const auto& [r, length] : {std::pair{0.0, 200}, {0.2, 200}, {0.3, 200}, {0.5, 400}, {0.8, 1200}}) {
    Machine machine(r);
    int found = 0, named = 0;
    for (int i = 0; i < kPairs; ++i) {
      const RecordedRun a = machine.run(length);
      const Comparison c = compare_runs(a, machine.run(length, 1.03), {.percent = 1});
      found += is_longer(c) ? 1 : 0;
      named += c.exceeded.empty() ? 0 : 1;
    }
    EXPECT_GE(found, kPairs * 95 / 100) << "correlation " << r << ", " << length << " steps";
    EXPECT_GE(named, found * 95 / 100) << "correlation " << r << ", " << length << " steps";
  }
}

TEST(Pairs, whose_means_differ_by_less_than_single_steps_do) {
  for (const int length : {30, 200}) {
    std::vector<double> turns;
    for (int i = 0; i < length; ++i) turns.push_back(i % 2 == 0 ? 0.1 : 0.3);
    const Comparison c = compare_runs(run_of(turns), run_of(std::vector<double>(turns.size(), 0.29)), {});
    EXPECT_EQ(c.exceeded, std::vector<std::string>{"step mean: +45.0 %"}) << length;
    EXPECT_GT(*c.kinds.at(0).figures.at(0).confidence, 0.95);
  }
}

TEST(Pairs, a_few_long_steps_are_no_slowdown) {
  Machine machine(0);
  for (int i = 0; i < 20; ++i) {
    auto disturbed = machine.series(200, 0.1);
    disturbed[static_cast<std::size_t>(10 * i)] *= 30;
    EXPECT_FALSE(is_longer(compare_runs(run_of(machine.series(200, 0.1)), run_of(disturbed), {.percent = 5}))) << i;
  }
}

TEST(Pairs, that_differ_within_the_limit_are_told) {
  Machine machine(0);
  const RecordedRun a = machine.run(1000);
  const Comparison c = compare_runs(a, machine.run(1000, 1.03), {});
  EXPECT_EQ(c.exceeded, std::vector<std::string>{});
  ASSERT_FALSE(c.slower.empty());
  EXPECT_EQ(c.slower[0].rfind("step mean: +", 0), 0u) << c.slower[0];
  const std::string text = to_text(c, {});
  EXPECT_NE(text.find("B is slower, within the limit, with at least 95 % confidence:\n  step mean: +"),
            std::string::npos)
      << text;
  const Comparison back = compare_runs(machine.run(1000, 1.03), a, {});
  EXPECT_EQ(back.slower, std::vector<std::string>{});
  EXPECT_EQ(back.kinds.at(0).figures.at(0).verdict, Verdict::faster);
}

}  // namespace
}  // namespace shard8::profile::tests
