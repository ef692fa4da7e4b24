// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/spread.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "profile/report.hpp"
#include "profile/report_files.hpp"
#include "tests/profile/synthetic.hpp"

namespace shard8::profile::tests {
namespace {

TEST(Percentiles, linear_between_neighbours) {
  std::vector<double> values(101);
  std::iota(values.rbegin(), values.rend(), 0.0);  // 100, 99, …, 0: not sorted
  EXPECT_DOUBLE_EQ(percentile(values, 50), 50);
  EXPECT_DOUBLE_EQ(percentile(values, 95), 95);
  EXPECT_DOUBLE_EQ(percentile(values, 99), 99);
  EXPECT_DOUBLE_EQ(percentile({1, 2}, 50), 1.5);
  EXPECT_DOUBLE_EQ(percentile({7}, 99), 7);
  EXPECT_DOUBLE_EQ(percentile({3, 1, 2}, 100), 3);
  EXPECT_EQ(percentile({}, 50), 0);
}

TEST(Spreads, name_the_lowest_worst_rank) {
  const std::vector<double> values{1, 5, 2, 5};
  const Spread s = spread_of(values);
  EXPECT_EQ(s.min, 1);
  EXPECT_EQ(s.max, 5);
  EXPECT_DOUBLE_EQ(s.mean, 3.25);
  EXPECT_EQ(s.worst_rank, 1);
}

TEST(Spreads, every_phase_and_part_is_listed_once) {
  std::vector<std::string> names;
  for (const TimedRow& row : timed_rows()) names.push_back(row.phase + "/" + row.part);
  for (int p = 0; p < kPhases; ++p) {
    const std::string phase(name_of(static_cast<Phase>(p)));
    EXPECT_EQ(std::count(names.begin(), names.end(), phase + "/"), 1) << phase;
    for (int q = 0; q < kParts; ++q) {
      const bool has_parts = phase == "forward" || phase == "backward";
      EXPECT_EQ(std::count(names.begin(), names.end(), phase + "/" + std::string(name_of(static_cast<Part>(q)))),
                has_parts ? 1 : 0);
    }
  }
  EXPECT_EQ(names.back(), "step/");
}

/// The value of rank r, if rank 0 has `x`. The ranks' values differ and are in no order.
double value_of_rank(double x, int r) { return x * (1 + static_cast<double>((r * 7919) % 1009) / 1009); }

/// A job of many ranks, simulated by what rank 0 does in it. A reduction is a tree: rank 0 joins what log2(ranks)
/// others have of the ranks below them. Lists by rank are made from the values of rank 0. Counts the bytes that rank 0
/// receives, and those that it holds of them at once.
struct SimulatedJob {
  explicit SimulatedJob(int count) : ranks(count) {}
  Gather gather() {
    return {.ranks = ranks,
            .over_ranks =
                [this](std::span<const double> mine) {
                  std::vector<OverRanks> all;
                  for (const double x : mine) all.push_back(OverRanks::of(x, 0));
                  for (int first = 1; first < ranks; first *= 2) {
                    for (std::size_t i = 0; i < mine.size(); ++i) all[i].join(below(mine[i], first));
                    count(mine.size() * sizeof(OverRanks));
                  }
                  return all;
                },
            .doubles =
                [this](std::span<const double> mine) {
                  std::vector<double> all;
                  for (int r = 0; r < ranks; ++r)
                    for (const double x : mine) all.push_back(value_of_rank(x, r));
                  count(all.size() * sizeof(double));
                  return all;
                },
            .texts =
                [this](std::string_view mine) {
                  count(mine.size() * static_cast<std::size_t>(ranks));
                  return std::vector<std::string>(static_cast<std::size_t>(ranks), std::string(mine));
                },
            .broadcast = [this](std::string& text, int) { count(text.size()); }};
  }

  int ranks;
  std::size_t calls = 0, max_bytes = 0, bytes = 0;

 private:
  /// The values of ranks `first` up to but not including 2·first, where rank 0 has `x`.
  OverRanks below(double x, int first) {
    const auto [at, is_new] = units_.try_emplace(first, OverRanks::of(value_of_rank(1, first), first));
    OverRanks& unit = at->second;
    if (is_new)
      for (int r = first + 1; r < std::min(2 * first, ranks); ++r) unit.join(OverRanks::of(value_of_rank(1, r), r));
    return {x * unit.min, x * unit.sum, x * unit.max, unit.max_rank};
  }
  void count(std::size_t received) {
    ++calls;
    bytes += received;
    max_bytes = std::max(max_bytes, received);
  }

  std::map<int, OverRanks> units_;  ///< where rank 0 has 1
};

StepRecord record_of(int count) {
  StepRecord steps;
  for (int s = 0; s < count; ++s) steps.add(synthetic_step(0, s));
  return steps;
}

TEST(OverRanks, join_in_any_order) {
  const std::vector<double> values{1, 5, 2, 5, -3};
  std::vector<int> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  do {
    OverRanks all = OverRanks::of(values[static_cast<std::size_t>(order[0])], order[0]);
    for (std::size_t i = 1; i < order.size(); ++i)
      all.join(OverRanks::of(values[static_cast<std::size_t>(order[i])], order[i]));
    EXPECT_EQ(all.min, -3);
    EXPECT_EQ(all.sum, 10);
    EXPECT_EQ(all.max, 5);
    EXPECT_EQ(all.max_rank, 1);
  } while (std::next_permutation(order.begin(), order.end()));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const bool nan_first : {false, true}) {
    OverRanks all = OverRanks::of(nan_first ? nan : 1, 0);
    all.join(OverRanks::of(nan_first ? 1 : nan, 1));
    EXPECT_TRUE(std::isnan(all.max));
    EXPECT_EQ(all.max_rank, nan_first ? 0 : 1);
  }
}

// With as many kinds of collectives and casts as a large job has.
TEST(Gathers, hold_bounded_bytes_on_any_number_of_ranks) {
  CollectiveLog log;
  for (std::uint64_t i = 0; i < 60; ++i) log.record({Collective::all_gather, "shard", 128, "bf16", 1000 + i}, 1, 0.5);
  IssueTimes issues;
  issues.add(Issue::gather, 1e-5);
  ReportInput input;
  input.host = "node00001.cluster";
  for (int i = 0; i < 24; ++i) input.casts.push_back({"tensor " + std::to_string(i), "e4m3", 1000, 10, 1, 2.0});
  input.issues = &issues;
  const auto steps = record_of(100);
  for (const int ranks : {1, 8, 1000, 16384}) {
    SimulatedJob job(ranks);
    const Report report = make_report(steps, log, input, job.gather());
    EXPECT_LE(job.max_bytes, std::size_t{1} << 20) << ranks << " ranks";
    EXPECT_EQ(report.ranks, ranks);
    EXPECT_EQ(report.collectives.size(), 60u);
    // 27 values by rank, 2200 values in log2(ranks) pieces, and the names of collectives.
    const auto levels = static_cast<std::size_t>(std::ceil(std::log2(ranks)));
    EXPECT_LE(job.bytes,
              16384 + 50 * sizeof(double) * static_cast<std::size_t>(ranks) + 3000 * sizeof(OverRanks) * levels);
  }
}

// More than 2^53 elements in all, which doubles would not count exactly.
TEST(Gathers, casts_are_counted_exactly) {
  ReportInput input;
  constexpr std::uint64_t kElements = (std::uint64_t{1} << 52) + 1;
  input.casts.push_back({"qkv input", "e4m3", kElements, 3, 0, 2.0});
  Gather four = one_rank();
  four.over_ranks = [](std::span<const double> mine) {
    std::vector<OverRanks> all;
    for (const double x : mine) all.push_back({x, 5 * x, x, 0});
    return all;
  };
  const Report report = make_report(StepRecord(), CollectiveLog(), input, four);
  EXPECT_EQ(report.casts[0].elements, 5 * kElements);
  EXPECT_EQ(report.casts[0].saturated, 15u);
}

TEST(Gathers, are_the_figures_of_all_values) {
  const auto steps = record_of(30);
  for (const int ranks : {2, 300, 4096, 5000, 16384}) {
    SimulatedJob job(ranks);
    const StepSpreads spreads = spread_over_ranks(steps, job.gather(), ranks == 300);
    ASSERT_EQ(spreads.rows.size(), steps.blocks().size());
    EXPECT_EQ(spreads.every.size(), ranks == 300 ? 30u * kTimedRows * 300 : 0u);
    for (std::size_t s = 0; s < steps.blocks().size(); ++s) {
      for (std::size_t i = 0; i < kTimedRows; ++i) {
        std::vector<double> values;
        for (int r = 0; r < ranks; ++r)
          values.push_back(value_of_rank(timed_rows()[i].seconds(steps.blocks()[s].sum), r));
        const Spread want = spread_of(values), got = spreads.rows[s][i];
        ASSERT_DOUBLE_EQ(got.min, want.min);
        ASSERT_NEAR(got.mean, want.mean, 1e-12 * want.mean);
        ASSERT_DOUBLE_EQ(got.max, want.max);
        if (want.max > 0) {
          ASSERT_EQ(got.worst_rank, want.worst_rank) << "step " << s << ", figure " << i << ", " << ranks << " ranks";
        }
        if (spreads.every.empty()) continue;
        for (std::size_t r = 0; r < values.size(); ++r)
          ASSERT_EQ(spreads.every[(s * kTimedRows + i) * values.size() + r], static_cast<float>(values[r]));
      }
    }
  }
}

// The report of a million steps on ten thousand ranks, as rank 0 makes and writes it. Slurm gives a job 30 s between
// its signals (KillWait); 5 s leave room for slower machines.
TEST(Gathers, a_report_of_many_ranks_takes_seconds) {
  constexpr int kManyRanks = 10000, kManySteps = 1000000;
  StepRecord steps(5);
  for (int s = 0; s < kManySteps; ++s) steps.add(synthetic_step(0, s % 16));
  CollectiveLog log;
  for (std::uint64_t i = 0; i < 60; ++i) log.record({Collective::all_gather, "shard", 128, "bf16", 1000 + i}, 1, 0.5);
  ReportInput input{.tokens_per_step = 1, .host = "node00001.cluster"};
  input.processor = MeasuredUse{};
  input.checkpoints = synthetic_checkpoints(0);
  SimulatedJob job(kManyRanks);
  const std::string name = "many_ranks_" + std::to_string(::getpid()), csv = name + ".csv", json = name + ".json";
  const auto began = std::chrono::steady_clock::now();
  const Report report = make_report(steps, log, input, job.gather());
  const std::string text = to_text(report);
  write_timing(csv, report);
  write_ranks(csv, report);
  write_summary(json, report, {});
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  std::remove(csv.c_str());
  std::remove(json.c_str());
  std::printf("report of %d ranks: %.2f s, %zu calls, %zu bytes received\n", kManyRanks, seconds, job.calls, job.bytes);
  EXPECT_LT(seconds, 5);
  EXPECT_LT(job.bytes, std::size_t{100} << 20);
  EXPECT_LE(job.max_bytes, std::size_t{4} << 20);
  EXPECT_EQ(report.measured_steps(), kManySteps - 5);
  EXPECT_EQ(report.hosts.size(), static_cast<std::size_t>(kManyRanks));
  EXPECT_EQ(report.times.by_rank.back().size(), static_cast<std::size_t>(kManyRanks));
}

TEST(Gathers, refuse_values_that_are_not_from_every_rank) {
  SimulatedJob job(4);
  Gather gather = job.gather();
  gather.doubles = [](std::span<const double>) { return std::vector<double>(3); };
  const double one = 1;
  EXPECT_THROW(for_each_gathered({&one, 1}, gather, [](std::size_t, std::span<const double>) {}), base::Error);
}

}  // namespace
}  // namespace shard8::profile::tests
