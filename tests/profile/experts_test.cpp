// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/figures.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/profile/matches.hpp"
#include "tests/profile/synthetic.hpp"

namespace shard8::profile::tests {
namespace {

using Json = nlohmann::json;

/// A step of rank `rank` of kRanks, which are one expert group. Rank 3 gets three times as many rows as the others.
ExpertCounts step_of(int rank, std::int64_t least, std::int64_t most) {
  return {.ranks = kRanks,
          .steps = 1,
          .least = least,
          .most = most,
          .mean = 12,
          .sent = 120,
          .received = rank == 3 ? 240 : 80,
          .busiest = 240,
          .dispatched_bytes = (4 + rank) << 20,
          .combined_bytes = 2 << 20,
          .layers = 4,
          .rounds = 6,
          .most_rounds = rank == 1 ? 3 : 2};
}

ExpertCounts steps_of(int rank) {
  ExpertCounts sum;
  sum.add(step_of(rank, 4, 30));
  sum.add(step_of(rank, 6, 40));
  sum.add(ExpertCounts{});  // no step
  return sum;
}

TEST(Experts, steps_are_added_up) {
  const ExpertCounts sum = steps_of(1);
  EXPECT_EQ(sum.ranks, kRanks);
  EXPECT_EQ(sum.steps, 2);
  EXPECT_EQ(sum.least, 4);
  EXPECT_EQ(sum.most, 40);
  EXPECT_EQ(sum.mean, 24);
  EXPECT_EQ(sum.received, 160);
  EXPECT_EQ(sum.layers, 8);
  EXPECT_EQ(sum.rounds, 12);
  EXPECT_EQ(sum.most_rounds, 3);
}

/// One rank's counts, as if every rank had them.
ExpertFigures figures_of_one(const ExpertCounts& counts) {
  StepTimes times;
  times.exchange[static_cast<std::size_t>(Exchange::routing)] = 0.002;
  times.exchange[static_cast<std::size_t>(Exchange::dispatch)] = 0.008;
  times.exchange[static_cast<std::size_t>(Exchange::combine)] = 0.004;
  times.exchange[static_cast<std::size_t>(Exchange::qkv_fprop)] = 1;
  times.experts = 0.020;
  const std::vector<InFlightRow> in_flight{
      {"all_gather", "expert", 2, 7, 7}, {"all_to_all", "expert", 2, 0.008, 0.006}, {"any", "", 0, 9, 9}};
  return experts_over_ranks(counts, times, 2, in_flight, one_rank());
}

TEST(Experts, figures_are_those_of_a_step) {
  const ExpertFigures f = figures_of_one(steps_of(3));
  EXPECT_EQ(f.steps, 2);
  EXPECT_EQ(f.mean, 12);
  EXPECT_EQ(f.sent.mean, 120);
  EXPECT_EQ(f.received.max, 240);
  EXPECT_EQ(f.dispatched_bytes.mean, 7 << 20);
  EXPECT_EQ(f.combined_bytes.mean, 2 << 20);
  EXPECT_EQ(f.rounds, 1.5);
  EXPECT_EQ(f.most_rounds, 2);
  EXPECT_DOUBLE_EQ(f.routing.mean, 0.001);
  EXPECT_DOUBLE_EQ(f.dispatch.mean, 0.004);
  EXPECT_DOUBLE_EQ(f.products.mean, 0.010);
  EXPECT_DOUBLE_EQ(f.combine.mean, 0.002);
  EXPECT_DOUBLE_EQ(f.in_flight_s, 0.008);
  EXPECT_DOUBLE_EQ(f.hidden(), 0.25);
}

TEST(Experts, ranks_are_compared) {
  Job job;
  job.change_input = [](int rank, ReportInput& input) { input.experts = steps_of(rank); };
  const auto reports = job.reports(4, ReportInput{});
  for (const Report& report : reports) {
    ASSERT_TRUE(report.experts);
    const ExpertFigures& f = *report.experts;
    EXPECT_EQ(f.received.mean, 120);
    EXPECT_EQ(f.received.max, 240);
    EXPECT_EQ(f.received.worst_rank, 3);
    EXPECT_EQ(f.busiest, 2);
    EXPECT_EQ(f.dispatched_bytes.min, 4 << 20);
    EXPECT_EQ(f.dispatched_bytes.max, 7 << 20);
    EXPECT_EQ(f.rounds, 1.5);
    EXPECT_EQ(f.most_rounds, 3);
  }
  const std::string text = to_text(reports[0]);
  expect_line(text, "experts, of a step +min +mean +max +worst rank");
  expect_line(text, R"(tokens of an expert +4 +12\.0 +40)");
  expect_line(text, R"(rows sent +120\.0 +120\.0 +120\.0 +0 \(node00\))");
  expect_line(text, R"(rows received +80\.0 +120\.0 +240\.0 +3 \(node01\))");
  expect_line(text, R"(MiB dispatched +4\.000 +5\.500 +7\.000 +3 \(node01\))");
  expect_line(text, R"(MiB combined +2\.000 +2\.000 +2\.000 +0 \(node00\))");
  expect_line(text, R"(rounds of a layer: mean 1\.50, most 3 +busiest rank of a layer: 2\.000 times the mean rows +in )"
                    R"(flight: 0\.000 ms, 0\.0 % of it hidden)");
}

TEST(Experts, one_rank_exchanges_nothing) {
  ExpertCounts counts = step_of(0, 4, 30);
  counts.ranks = 1;
  const std::string text = to_text(figures_of_one(counts), std::vector<std::string>{"vm"});
  expect_line(text, R"(products ms +10\.000 +10\.000 +10\.000 +0 \(vm\))");
  expect_line(text, "rounds of a layer: mean 1\\.50, most 2");
  for (const char* word : {"MiB", "routing", "dispatch", "combine", "busiest"})
    EXPECT_EQ(text.find(word), std::string::npos) << word;
  EXPECT_EQ(to_text(ExpertFigures{}, {}), "");  // no step was counted
}

TEST(Experts, are_an_object_of_the_summary) {
  const Json e = Json::parse(to_json(figures_of_one(steps_of(3))));
  EXPECT_EQ(e.at("ranks"), kRanks);
  EXPECT_EQ(e.at("steps"), 2);
  EXPECT_EQ(e.at("tokens"), (Json{{"least", 4}, {"mean", 12.0}, {"most", 40}}));
  EXPECT_EQ(e.at("rows_received"), (Json{{"min", 240.0}, {"mean", 240.0}, {"max", 240.0}, {"worst_rank", 0}}));
  EXPECT_EQ(e.at("rounds"), (Json{{"mean", 1.5}, {"most", 2}}));
  EXPECT_EQ(e.at("dispatched_bytes").at("mean"), 7 << 20);
  EXPECT_DOUBLE_EQ(e.at("products_s").at("mean").get<double>(), 0.010);
  EXPECT_DOUBLE_EQ(e.at("in_flight_s").get<double>(), 0.008);
  EXPECT_DOUBLE_EQ(e.at("exposed_s").get<double>(), 0.006);
}

}  // namespace
}  // namespace shard8::profile::tests
