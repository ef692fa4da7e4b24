// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/spread.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "profile/report.hpp"
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

/// A job of many ranks, simulated by rank 0: the figures of all ranks are made from those of rank 0. Counts the gathers
/// and the bytes that rank 0 holds in each.
struct SimulatedJob {
  explicit SimulatedJob(int count) : ranks(count) {}
  Gather gather() {
    return {ranks,
            [this](std::span<const double> mine) {
              std::vector<double> all;
              for (int r = 0; r < ranks; ++r)
                for (const double x : mine) all.push_back(vary ? value_of_rank(x, r) : x);
              count(all.size() * sizeof(double));
              return all;
            },
            [this](std::string_view mine) {
              count(mine.size() * static_cast<std::size_t>(ranks));
              return std::vector<std::string>(static_cast<std::size_t>(ranks), std::string(mine));
            },
            [this](std::string& text, int) { count(text.size()); }};
  }
  void count(std::size_t bytes) {
    ++calls;
    max_bytes = std::max(max_bytes, bytes);
  }

  int ranks;
  bool vary = false;  ///< values differ between ranks
  std::size_t calls = 0, max_bytes = 0;
};

StepRecord steps_of(int count) {
  StepRecord steps;
  for (int s = 0; s < count; ++s) steps.add(synthetic_step(0, s));
  return steps;
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
  const auto steps = steps_of(100);
  for (const int ranks : {1, 8, 1000, 16384}) {
    SimulatedJob job(ranks);
    const Report report = make_report(steps, log, input, job.gather());
    EXPECT_LE(job.max_bytes, std::size_t{1} << 20) << ranks << " ranks";
    EXPECT_EQ(report.ranks, ranks);
    EXPECT_EQ(report.collectives.size(), 60u);
    EXPECT_EQ(report.collectives[7].calls_per_step, 0.01);
    EXPECT_EQ(report.casts[5].saturated, 10u * static_cast<unsigned>(ranks));
    // The bytes per rank decide the number of calls: 2069 values (1700 of steps, 17 of sums, 240 of collectives, 96 of
    // casts, 16 of issues), with a factor of 2 for blocks that are not full, and 30 calls for the rest.
    EXPECT_LE(job.calls, 30 + 2069 * static_cast<std::size_t>(ranks) * sizeof(double) / kGatheredBytes * 2);
  }
}

// Figures gathered in blocks have the same bits as figures of all values at once.
TEST(Gathers, give_the_same_figures_block_by_block) {
  const auto steps = steps_of(30);
  for (const int ranks : {2, 300, 4096, 5000, 16384}) {
    SimulatedJob job(ranks);
    job.vary = true;
    const StepSpreads spreads = spread_over_ranks(steps, job.gather());
    ASSERT_EQ(spreads.rows.size(), steps.blocks().size());
    for (std::size_t s = 0; s < steps.blocks().size(); ++s) {
      for (std::size_t i = 0; i < kTimedRows; ++i) {
        std::vector<double> values;
        for (int r = 0; r < ranks; ++r)
          values.push_back(value_of_rank(timed_rows()[i].seconds(steps.blocks()[s].sum), r));
        const Spread want = spread_of(values), got = spreads.rows[s][i];
        ASSERT_EQ(got.min, want.min);
        ASSERT_EQ(got.mean, want.mean);
        ASSERT_EQ(got.max, want.max);
        ASSERT_EQ(got.worst_rank, want.worst_rank) << "step " << s << ", figure " << i << ", " << ranks << " ranks";
      }
    }
  }
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
