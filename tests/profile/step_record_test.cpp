// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "profile/compare/comparison.hpp"
#include "profile/spread.hpp"
#include "profile/step_times.hpp"
#include "tests/profile/synthetic.hpp"

namespace shard8::profile::tests {
namespace {

StepTimes step_of(double seconds) {
  StepTimes step;
  step.total = seconds;
  step.phase[static_cast<std::size_t>(Phase::forward)] = seconds / 2;
  return step;
}

TEST(StepRecord, keeps_every_step_while_there_is_room) {
  StepRecord record(2, 8);
  for (int s = 0; s < 10; ++s) record.add(step_of(s));
  EXPECT_EQ(record.skipped(), 2);
  EXPECT_EQ(record.skipped_sum().total, 0 + 1);
  EXPECT_EQ(record.measured(), 8);
  EXPECT_EQ(record.block_steps(), 1);
  ASSERT_EQ(record.blocks().size(), 8u);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(record.blocks()[i].sum.total, static_cast<double>(i + 2));
    EXPECT_EQ(record.blocks()[i].drawn_s, static_cast<double>(i + 2));
    EXPECT_EQ(record.blocks()[i].steps, 1);
  }
}

TEST(StepRecord, joins_neighbours_where_there_is_none) {
  StepRecord record(0, 8);
  for (int s = 0; s < 43; ++s) record.add(step_of(s));
  EXPECT_EQ(record.block_steps(), 8);
  ASSERT_EQ(record.blocks().size(), 6u);
  for (std::size_t i = 0; i < 6; ++i) {
    const StepRecord::Block& block = record.blocks()[i];
    const int first = static_cast<int>(i) * 8, end = std::min(first + 8, 43);
    double sum = 0;
    for (int s = first; s < end; ++s) sum += s;
    EXPECT_EQ(block.steps, end - first);
    EXPECT_EQ(block.sum.total, sum);
    EXPECT_EQ(block.sum.phase[static_cast<std::size_t>(Phase::forward)], sum / 2);
    EXPECT_GE(block.drawn_s, first);
    EXPECT_LT(block.drawn_s, end);
  }
  EXPECT_EQ(record.sum().total, 43 * 42 / 2);
  const StepSpreads spreads = spread_over_ranks(record, one_rank());
  EXPECT_EQ(spreads.steps, 43);
  EXPECT_EQ(spreads.row_steps, 8);
  EXPECT_EQ(spreads.drawn_s.size(), 5u) << "the last block is not full";
  EXPECT_DOUBLE_EQ(spreads.rows[1].back().mean, 11.5);
  EXPECT_DOUBLE_EQ(spreads.mean.back().mean, 21);
  EXPECT_DOUBLE_EQ(spreads.longest_s, 43 * 21);
}

// 2000 draws from blocks of 32 steps, 62.5 for each place in a block, with a standard deviation of 7.8.
TEST(StepRecord, draws_each_step_of_a_block_equally_on_all_ranks) {
  std::vector<int> drawn(32, 0);
  StepRecord record(0, 2000), of_other_rank(7, 2000);
  for (int s = 0; s < 2000 * 32; ++s) record.add(step_of(s));
  for (int s = -7; s < 2000 * 32; ++s) of_other_rank.add(step_of(s));
  ASSERT_EQ(record.block_steps(), 32);
  ASSERT_EQ(record.blocks().size(), 2000u);
  for (std::size_t i = 0; i < record.blocks().size(); ++i) {
    ++drawn[static_cast<std::size_t>(record.blocks()[i].drawn_s) % 32];
    EXPECT_EQ(of_other_rank.blocks()[i].drawn_s, record.blocks()[i].drawn_s);
  }
  for (const int times : drawn) EXPECT_NEAR(times, 62.5, 5 * 7.8);
}

/// Steps whose neighbours resemble each other, with a long tail; every 512th is much longer, as with a checkpoint.
std::vector<double> series(int steps, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> values;
  double state = 0;
  for (int s = 0; s < steps; ++s) {
    state = 0.5 * state + normal(random);
    values.push_back(0.1 * std::exp(0.1 * state) + (s % 512 == 511 ? 0.2 : 0));
  }
  return values;
}

// The bounds are those that StepRecord states, made five standard deviations wide: 60 figures are checked.
TEST(StepRecord, percentiles_of_long_runs_are_as_exact_as_stated) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const int steps = seed % 2 == 0 ? 20000 : 100000;
    const std::vector<double> all = series(steps, seed);
    StepRecord record;
    for (const double seconds : all) record.add(step_of(seconds));
    const StepSpreads spreads = spread_over_ranks(record, one_rank());
    const auto n = static_cast<double>(spreads.drawn_s.size());
    ASSERT_GE(n, 2048);
    for (const double p : {50.0, 95.0, 99.0}) {
      const double off = 5 * std::sqrt(p * (100 - p) / n);
      const double found = percentile(spreads.drawn_s, p);
      EXPECT_GE(found, percentile(all, p - off)) << "p" << p << ", seed " << seed;
      EXPECT_LE(found, percentile(all, std::min(p + off, 100.0))) << "p" << p << ", seed " << seed;
    }
    const double mean = spreads.mean.back().mean;
    double sum = 0;
    for (const double x : all) sum += x;
    EXPECT_NEAR(mean, sum / steps, 1e-12 * mean);
  }
}

// The error of the mean from rows of joined steps, as compare reads them, is that from the steps themselves.
TEST(StepRecord, the_error_of_the_mean_stays) {
  double ratio = 0;
  constexpr int kSeries = 20;
  for (unsigned seed = 0; seed < kSeries; ++seed) {
    const std::vector<double> all = series(40000, 100 + seed);
    StepRecord record;
    for (const double seconds : all) record.add(step_of(seconds));
    const StepSpreads spreads = spread_over_ranks(record, one_rank());
    std::vector<double> rows;
    for (const Spreads& row : spreads.rows) rows.push_back(row.back().max);
    const auto of_steps = mean_of_steps(all), of_rows = mean_of_steps(rows);
    ASSERT_TRUE(of_steps && of_rows);
    EXPECT_NEAR(of_rows->mean, of_steps->mean, 1e-3 * of_steps->mean);
    ratio += of_rows->error / of_steps->error / kSeries;
  }
  EXPECT_NEAR(ratio, 1, 0.2);
}

TEST(StepRecord, takes_its_memory_before) {
  StepRecord record;
  record.reserve(1000000);
  record.add(step_of(1));
  const auto* const memory = record.blocks().data();
  for (int s = 0; s < 20000; ++s) record.add(step_of(1));
  EXPECT_EQ(record.blocks().data(), memory);
}

TEST(StepRecord, values_of_every_rank_are_bounded_too) {
  StepRecord record;
  for (int s = 0; s < 100; ++s) record.add(step_of(s));
  const StepSpreads all = spread_over_ranks(record, one_rank(), true);
  EXPECT_EQ(all.every_steps, 1);
  EXPECT_EQ(all.every.size(), 100u * kTimedRows);
  const StepSpreads few = spread_over_ranks(record, one_rank(), true, 30 * kTimedRows);
  EXPECT_EQ(few.every_steps, 4);
  ASSERT_EQ(few.every.size(), 25u * kTimedRows);
  EXPECT_FLOAT_EQ(few.every[2 * kTimedRows - 1], 5.5F) << "of steps 4 to 7";
}

TEST(CallTimes, median_of_many_calls) {
  CallTimes calls;
  EXPECT_EQ(calls.median_s(), 0);
  std::vector<double> all;
  std::mt19937 random(1);
  std::lognormal_distribution<double> seconds(std::log(2e-5), 1.5);
  for (int i = 0; i < 100000; ++i) {
    all.push_back(seconds(random));
    calls.add(all.back());
    if (i + 1 == 1000) {
      EXPECT_EQ(calls.median_s(), percentile(all, 50)) << "exact";
    }
  }
  const double median = percentile(all, 50);
  EXPECT_NEAR(calls.median_s(), median, 0.009 * median);
  EXPECT_EQ(calls.longest_s(), *std::max_element(all.begin(), all.end()));
  calls.clear();
  EXPECT_EQ(calls.calls(), 0u);
  for (int i = 0; i < 2000; ++i) calls.add(i % 2 == 0 ? 0 : 1e6);  // outside of the bins
  EXPECT_LE(calls.median_s(), 2e-9);
  EXPECT_EQ(calls.sum_s(), 1e9);
}

}  // namespace
}  // namespace shard8::profile::tests
