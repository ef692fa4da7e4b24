// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/gather.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "profile/report.hpp"
#include "tests/profile/synthetic.hpp"

// What a report gathers from many ranks: bytes and figures, seen from one rank that plays them all.

namespace shard8::profile::tests {
namespace {

/// Rank r's value where rank 0 has `x`: different on every rank, in no order.
double of_rank(double x, int r) { return x * (1 + static_cast<double>((r * 7919) % 1009) / 1009); }

/// Every rank's figures, made from rank 0's. Counts what rank 0 holds of each call, and the calls.
struct Simulated {
  explicit Simulated(int with) : ranks(with) {}
  Gather gather() {
    return {ranks,
            [this](std::span<const double> mine) {
              std::vector<double> all;
              for (int r = 0; r < ranks; ++r)
                for (const double x : mine) all.push_back(vary ? of_rank(x, r) : x);
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
    most = std::max(most, bytes);
  }

  int ranks;
  bool vary = false;
  std::size_t calls = 0, most = 0;
};

std::vector<StepTimes> steps_of(int count) {
  std::vector<StepTimes> steps;
  for (int s = 0; s < count; ++s) steps.push_back(synthetic_step(0, s));
  return steps;
}

// As much as a large job has: many kinds of collectives and casts.
TEST(Gathers, HoldBoundedBytesHoweverManyRanks) {
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
    Simulated job(ranks);
    const Report report = make_report(steps, log, input, job.gather());
    EXPECT_LE(job.most, std::size_t{1} << 20) << ranks << " ranks";
    EXPECT_EQ(report.ranks, ranks);
    EXPECT_EQ(report.collectives.size(), 60u);
    EXPECT_EQ(report.collectives[7].calls_per_step, 0.01);
    EXPECT_EQ(report.casts[5].saturated, 10u * static_cast<unsigned>(ranks));
    // Calls grow as the values do, not with the ranks' square: 1700 + 17 + 240 + 96 + 16 values, and few others.
    EXPECT_LE(job.calls, 30 + 2069 * static_cast<std::size_t>(ranks) * sizeof(double) / kGatheredBytes * 2);
  }
}

// In blocks of any length the figures are those of all values at once, bit for bit.
TEST(Gathers, GiveTheSameFiguresBlockByBlock) {
  const auto steps = steps_of(30);
  for (const int ranks : {2, 300, 4096, 5000, 16384}) {
    Simulated job(ranks);
    job.vary = true;
    const StepSpreads spreads = spread_over_ranks(steps, job.gather());
    ASSERT_EQ(spreads.steps.size(), steps.size());
    for (std::size_t s = 0; s < steps.size(); ++s) {
      for (std::size_t i = 0; i < kTimed; ++i) {
        std::vector<double> values;
        for (int r = 0; r < ranks; ++r) values.push_back(of_rank(timed()[i].seconds(steps[s]), r));
        const Spread want = spread_of(values), got = spreads.steps[s][i];
        ASSERT_EQ(got.min, want.min);
        ASSERT_EQ(got.mean, want.mean);
        ASSERT_EQ(got.max, want.max);
        ASSERT_EQ(got.worst_rank, want.worst_rank) << "step " << s << ", figure " << i << ", " << ranks << " ranks";
      }
    }
  }
}

TEST(Gathers, RefuseWhatIsNotOfEveryRank) {
  Simulated job(4);
  Gather gather = job.gather();
  gather.doubles = [](std::span<const double>) { return std::vector<double>(3); };
  const double one = 1;
  EXPECT_THROW(for_each_gathered({&one, 1}, gather, [](std::size_t, std::span<const double>) {}), base::Error);
}

}  // namespace
}  // namespace shard8::profile::tests
