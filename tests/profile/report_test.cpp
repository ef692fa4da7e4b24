// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/report.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "tests/profile/matches.hpp"
#include "tests/profile/synthetic.hpp"

namespace shard8::profile::tests {
namespace {

constexpr double kTolerance = 1e-12;  // rounding of sums of decimal fractions of a second

const Spread& row(const Spreads& spreads, const std::string& phase, const std::string& part = "") {
  for (std::size_t i = 0; i < kTimedRows; ++i) {
    if (timed_rows()[i].phase == phase && timed_rows()[i].part == part) return spreads[i];
  }
  throw std::out_of_range(phase + " " + part);
}

CollectiveKey key(Collective op, int n) { return {op, "shard", n, "fp32", 1000000}; }

TEST(CollectiveLog, adds_up_by_kind) {
  CollectiveLog log;
  log.record(key(Collective::all_gather, 4), 2, 1);
  log.record(key(Collective::all_gather, 4), 3, 0.5);
  log.record(key(Collective::reduce_scatter, 4), 7, 7);
  log.set_measuring(false);
  log.record(key(Collective::all_gather, 4), 100, 100);
  ASSERT_EQ(log.entries().size(), 2u);
  const CollectiveStats& stats = log.entries().at(key(Collective::all_gather, 4));
  EXPECT_EQ(stats.calls, 2u);
  EXPECT_EQ(stats.total_s, 5);
  EXPECT_EQ(stats.exposed_s, 1.5);
}

// The counts of experts change with every step.
TEST(CollectiveLog, one_entry_for_all_sizes_where_data_decide_them) {
  CollectiveLog log;
  std::vector<std::uint64_t> told;
  log.set_watcher({nullptr, [&](const CollectiveKey& call) { told.push_back(call.bytes); }});
  const auto call = [](Collective op, const char* dtype, std::uint64_t bytes) {
    return CollectiveKey{op, "expert", 4, dtype, bytes};
  };
  for (std::uint64_t i = 1; i <= 1000; ++i) {
    log.record(call(Collective::all_to_all, "bf16", i), 1, 0.5);
    log.record(call(Collective::all_to_all, "e4m3", 2 * i), 1, 0.5);
    log.record(call(Collective::send_receive, "bf16", 3 * i), 1, 0.5);
  }
  ASSERT_EQ(log.entries().size(), 3u);
  for (const auto& [kind, stats] : log.entries()) {
    EXPECT_EQ(stats.calls, 1000u);
    EXPECT_EQ(stats.total_s, 1000);
    EXPECT_EQ(stats.exposed_s, 500);
  }
  EXPECT_EQ(log.entries().at(kind_of(call(Collective::all_to_all, "bf16", 7))).bytes, 500500u);
  EXPECT_EQ(log.entries().at(kind_of(call(Collective::send_receive, "bf16", 7))).bytes, 1501500u);
  ASSERT_EQ(told.size(), 3000u);
  EXPECT_EQ(told[2997], 1000u) << "the watcher is told the bytes of the call";

  log.record(call(Collective::all_gather, "bf16", 64), 1, 0.5);
  log.record(call(Collective::all_gather, "bf16", 128), 1, 0.5);
  EXPECT_EQ(log.entries().size(), 5u);
}

InFlight::Clock::time_point at(int ms) { return InFlight::Clock::time_point(std::chrono::milliseconds(ms)); }

// gathers     |10----30|   |40-50|        |60----------
// reductions       |20----------45|            |70-80|
TEST(CollectiveLog, time_in_flight_is_the_union_of_intervals) {
  CollectiveLog log;
  const CollectiveGroup gather{Collective::all_gather, "shard", 4}, reduce{Collective::reduce_scatter, "shard", 4};
  const auto seconds = [&log](const CollectiveGroup& group) { return log.in_flight().at(group).seconds(); };
  log.began(gather, at(10));
  log.began(reduce, at(20));
  log.ended(gather, at(30));
  log.began(gather, at(40));
  log.ended(reduce, at(45));
  log.ended(gather, at(50));
  log.began(gather, at(60));
  log.began(reduce, at(70));
  log.ended(reduce, at(80));
  EXPECT_DOUBLE_EQ(seconds(gather), 0.030);
  EXPECT_DOUBLE_EQ(seconds(reduce), 0.035);
  EXPECT_DOUBLE_EQ(log.any_in_flight().seconds(), 0.040);  // 10 to 50; the last gather is not over
  // Only measured time counts, also of a call that began before.
  log.set_measuring(false, at(90));
  EXPECT_DOUBLE_EQ(seconds(gather), 0.060);
  log.set_measuring(true, at(100));
  log.ended(gather, at(105));
  EXPECT_DOUBLE_EQ(seconds(gather), 0.065);
  EXPECT_DOUBLE_EQ(log.any_in_flight().seconds(), 0.040 + 0.035);
  // Two of the same kind at once.
  log.clear(at(110));
  log.began(gather, at(110));
  log.began(gather, at(111));
  log.ended(gather, at(118));
  log.ended(gather, at(120));
  EXPECT_DOUBLE_EQ(seconds(gather), 0.010);
  EXPECT_EQ(seconds(reduce), 0);
  log.add_in_flight(reduce, 0.5);
  EXPECT_DOUBLE_EQ(log.any_in_flight().seconds(), 0.51);
}

// Eight gathers of 100 ms each, all in flight at once, in a step of 100 to 110 ms; and calls whose times overlap so
// much that their sum would be longer than the step.
TEST(CollectiveLog, no_step_is_shorter_than_its_time_in_flight) {
  CollectiveLog log;
  const CollectiveGroup gather{Collective::all_gather, "shard", 4}, reduce{Collective::reduce_scatter, "world", 4};
  StepRecord steps;
  for (int step = 0; step < 3; ++step) {
    steps.add(synthetic_step(0, 0));
    for (int i = 0; i < 8; ++i) log.began(gather, at(100 * step + i));
    for (int i = 0; i < 8; ++i) log.ended(gather, at(100 * step + 80 + i));
    for (int i = 0; i < 8; ++i) log.record(key(Collective::all_gather, 4), 0.080, 0.002);
    log.add_in_flight(reduce, 0.5);  // of a device
    log.record({Collective::reduce_scatter, "world", 4, "fp32", 8}, 0.5, 0);
  }
  const Report r = make_report(steps, log, {}, one_rank());
  ASSERT_EQ(r.in_flight.size(), 3u);
  EXPECT_EQ(r.in_flight[0].operation, "all_gather");
  EXPECT_NEAR(r.in_flight[0].seconds, 0.087, kTolerance);
  EXPECT_NEAR(r.in_flight[0].exposed_s, 0.016, kTolerance);
  const double step = r.times.mean.back().mean;
  EXPECT_NEAR(r.in_flight[1].seconds, step, kTolerance);
  EXPECT_EQ(r.in_flight[2].operation, "any");
  EXPECT_NEAR(r.in_flight[2].seconds, step, kTolerance);
  EXPECT_NEAR(r.in_flight[2].exposed_s, 0.016, kTolerance);
}

TEST(Reports, a_row_of_calls_of_many_sizes_shows_the_mean_call) {
  CollectiveLog log;
  StepRecord steps;
  for (const std::uint64_t bytes : {100u, 301u}) {
    steps.add(synthetic_step(0, 0));
    log.record({Collective::all_to_all, "expert", 4, "bf16", bytes}, 0.5, 0.1);
  }
  const Report r = make_report(steps, log, {}, one_rank());
  ASSERT_EQ(r.collectives.size(), 1u);
  EXPECT_EQ(r.collectives[0].key.bytes, 201u);
  EXPECT_DOUBLE_EQ(r.collectives[0].calls_per_step, 1);
  EXPECT_DOUBLE_EQ(r.collectives[0].algbw, 402);
  EXPECT_DOUBLE_EQ(r.collectives[0].busbw, 402 * 0.75);
  EXPECT_EQ(r.in_flight[0].operation, "all_to_all");
}

// The factors are those of nccl-tests, doc/PERFORMANCE.md.
TEST(CollectiveLog, bandwidths_as_nccl_tests) {
  const double s = 0.001;  // 1 MB in 1 ms: 1 GB/s
  EXPECT_DOUBLE_EQ(algbw(key(Collective::all_reduce, 4), s), 1e9);
  EXPECT_DOUBLE_EQ(busbw(key(Collective::all_reduce, 4), s), 1.5e9);
  EXPECT_DOUBLE_EQ(busbw(key(Collective::all_reduce, 2), s), 1e9);
  EXPECT_DOUBLE_EQ(busbw(key(Collective::all_gather, 4), s), 0.75e9);
  EXPECT_DOUBLE_EQ(busbw(key(Collective::reduce_scatter, 8), s), 0.875e9);
  EXPECT_DOUBLE_EQ(busbw(key(Collective::all_to_all, 4), s), 0.75e9);
  EXPECT_DOUBLE_EQ(busbw(key(Collective::send_receive, 4), s), 1e9);
  EXPECT_EQ(algbw(key(Collective::all_gather, 4), 0), 0);
}

TEST(Reports, are_the_same_on_every_rank_but_for_lists_by_rank) {
  auto all = Job().reports(12, {.tokens_per_step = 1e6, .flops_per_step = 1e15, .every_rank = true}, 2);
  for (int r = 1; r < kRanks; ++r) {
    Report& report = all[static_cast<std::size_t>(r)];
    EXPECT_TRUE(report.hosts.empty());
    EXPECT_TRUE(report.times.by_rank.empty());
    EXPECT_TRUE(report.times.every.empty());
    report.hosts = all[0].hosts;
    EXPECT_EQ(to_text(report), to_text(all[0]));
  }
}

TEST(Reports, phases_over_ranks) {
  const Report r = synthetic_report();
  EXPECT_EQ(r.ranks, 4);
  EXPECT_EQ(r.measured_steps(), 10);
  EXPECT_EQ(r.first_step, 2);
  const Spread& forward = row(r.times.mean, "forward");
  EXPECT_NEAR(forward.min, 0.030, kTolerance);
  EXPECT_NEAR(forward.max, 0.040, kTolerance);
  EXPECT_NEAR(forward.mean, 0.0325, kTolerance);
  EXPECT_EQ(forward.worst_rank, 2);
  EXPECT_EQ(row(r.times.mean, "forward", "gemm").worst_rank, 2);
  EXPECT_NEAR(row(r.times.mean, "forward", "gemm").max, 0.030, kTolerance);
  EXPECT_NEAR(row(r.times.mean, "backward", "gemm").mean, 0.040, kTolerance);
  EXPECT_NEAR(row(r.times.mean, "gather_wait").mean, 0.009, kTolerance);  // 4 ms, and 50 ms more in one step of ten
  EXPECT_NEAR(row(r.times.mean, "step").mean, 0.1075, kTolerance);
  // `other` takes 1 ms of 107.5 ms.
  EXPECT_NEAR(r.coverage, 1 - 0.001 / 0.1075, kTolerance);
  // gather_wait 9 ms, reduce_wait 3 ms, tensor_comm 2 + 5 ms
  EXPECT_NEAR(r.exposed_communication, 0.019 / 0.1075, kTolerance);
}

TEST(Reports, steps_by_their_slowest_rank) {
  const Report r = synthetic_report();
  EXPECT_NEAR(r.p50_s, 0.110, kTolerance);
  // One of ten steps takes 160 ms. The 95th percentile is at index 0.95 · 9 = 8.55, the 99th at 8.91.
  EXPECT_NEAR(r.p95_s, 0.110 + 0.55 * 0.050, kTolerance);
  EXPECT_NEAR(r.p99_s, 0.110 + 0.91 * 0.050, kTolerance);
  EXPECT_NEAR(row(r.times.rows[1], "gather_wait").max, 0.054, kTolerance);
  EXPECT_EQ(row(r.times.rows[1], "step").worst_rank, 2);
  // The slowest rank takes 10 · 110 + 50 ms.
  EXPECT_NEAR(r.tokens_per_s, 1e7 / 1.15, 1e-3);
  EXPECT_NEAR(r.flops_per_s_per_rank, 1e16 / 1.15 / 4, 1e6);
}

TEST(Reports, more_steps_than_are_gathered_at_once) {
  const Report r = Job().reports(200, {.tokens_per_step = 1}, 3)[0];
  ASSERT_EQ(r.measured_steps(), 197);
  for (std::size_t s = 0; s < 197; ++s) {
    const double stall = s == 0 ? 0.050 : 0;  // step 3
    ASSERT_NEAR(row(r.times.rows[s], "gather_wait").mean, 0.004 + stall, kTolerance) << s;
    ASSERT_NEAR(row(r.times.rows[s], "step").max, 0.110 + stall, kTolerance) << s;
  }
}

ReportInput with_methods() {
  ReportInput input{.tokens_per_step = 1};
  input.methods.emplace();
  (*input.methods)[Exchange::qkv_dgrad] = ExchangeMethod::bulk;
  return input;
}

constexpr auto kOfTensorGroup = static_cast<std::size_t>(Exchange::routing);

TEST(Reports, exchanges_over_ranks) {
  for (const Report& r : Job().reports(12, with_methods(), 2)) {
    ASSERT_EQ(r.exchanges.size(), kOfTensorGroup + 2);
    double sum = 0;
    for (std::size_t e = 0; e < kOfTensorGroup; ++e) {
      EXPECT_EQ(r.exchanges[e].name, name_of(static_cast<Exchange>(e)));
      EXPECT_EQ(r.exchanges[e].method, r.exchanges[e].name == "qkv_dgrad" ? "bulk" : "off");
      sum += r.exchanges[e].exposed.mean;
    }
    const Spread& fc1 = r.exchanges[static_cast<std::size_t>(Exchange::fc1_fprop)].exposed;
    EXPECT_NEAR(fc1.min, 0.001, kTolerance);
    EXPECT_NEAR(fc1.mean, 0.0015, kTolerance);
    EXPECT_NEAR(fc1.max, 0.003, kTolerance);
    EXPECT_EQ(fc1.worst_rank, 2);
    const ExchangeRow &other = r.exchanges[kOfTensorGroup], &all = r.exchanges[kOfTensorGroup + 1];
    EXPECT_EQ(other.name, "other");
    EXPECT_EQ(other.method, "");
    EXPECT_NEAR(other.exposed.mean, 0.0015, kTolerance);
    EXPECT_EQ(all.name, "all");
    EXPECT_NEAR(all.exposed.mean, sum + other.exposed.mean, kTolerance);
    const Spreads& mean = r.times.mean;
    EXPECT_NEAR(all.exposed.mean, row(mean, "forward", "tensor_comm").mean + row(mean, "backward", "tensor_comm").mean,
                kTolerance);
  }
  EXPECT_TRUE(synthetic_report().exchanges.empty());
}

TEST(Reports, no_row_for_other_exchanges_that_take_no_time) {
  StepTimes step;
  step.exchange[static_cast<std::size_t>(Exchange::embedding)] = 2;
  const std::vector<ExchangeRow> rows = exchange_rows(step, 1, ExchangeMethods{}, one_rank());
  ASSERT_EQ(rows.size(), kOfTensorGroup + 1);
  EXPECT_EQ(rows.back().name, "all");
  EXPECT_EQ(rows.back().exposed.mean, 2);
  EXPECT_TRUE(exchange_rows({}, 0, ExchangeMethods{}, one_rank()).empty());
}

TEST(Reports, collectives_per_step) {
  const Report r = synthetic_report();
  ASSERT_EQ(r.collectives.size(), 3u);
  const CollectiveRow& gather = r.collectives[0];
  EXPECT_EQ(gather.key.op, Collective::all_gather);
  EXPECT_NEAR(gather.calls_per_step, 2, kTolerance);
  EXPECT_NEAR(gather.total_s, 0.008, kTolerance);
  EXPECT_NEAR(gather.exposed_s, 0.002, kTolerance);
  EXPECT_NEAR(gather.algbw, 2e9, 1);
  EXPECT_NEAR(gather.busbw, 1.5e9, 1);
  // Only one rank calls it: the mean is over this rank.
  EXPECT_EQ(r.collectives[1].key.group, "tensor");
  EXPECT_NEAR(r.collectives[1].calls_per_step, 1, kTolerance);
  EXPECT_NEAR(r.collectives[1].total_s, 0.5, kTolerance);
  // The ranks take 1, 5, 1 and 1 ms.
  EXPECT_NEAR(r.collectives[2].total_s, 0.002, kTolerance);
  EXPECT_NEAR(r.collectives[2].busbw, 4000 / 0.002 * 1.5, 1);
}

TEST(Reports, host_time_to_issue) {
  IssueTimes issues;
  for (int i = 0; i < 39; ++i) issues.add(Issue::gather, 10e-6);
  issues.add(Issue::gather, 410e-6);  // 40 calls in 10 steps: the mean is twice the median
  const Report r = Job().reports(12, {.tokens_per_step = 1e6, .issues = &issues}, 2)[0];
  ASSERT_EQ(r.issues.size(), 1u);
  EXPECT_EQ(r.issues[0].what, "gather");
  EXPECT_NEAR(r.issues[0].calls_per_step, 4, kTolerance);
  EXPECT_NEAR(r.issues[0].mean_s, 20e-6, kTolerance);
  EXPECT_NEAR(r.issues[0].p50_s, 10e-6, kTolerance);
  EXPECT_NEAR(r.issues[0].max_s, 410e-6, kTolerance);
  EXPECT_TRUE(synthetic_report().issues.empty());
}

TEST(Reports, casts_over_ranks) {
  const auto all = synthetic_fp8_reports();
  for (const Report& r : all) {
    EXPECT_EQ(r.emulated, "mxfp8");
    ASSERT_EQ(r.casts.size(), 2u);
    EXPECT_EQ(r.casts[0].tensor, "qkv input");
    EXPECT_EQ(r.casts[0].dtype, "e4m3");
    EXPECT_EQ(r.casts[0].elements, 4000006u);
    EXPECT_EQ(r.casts[0].saturated, 6u);
    EXPECT_EQ(r.casts[0].flushed, 600u);
    EXPECT_EQ(r.casts[0].scale_change, 2.5);
    EXPECT_EQ(r.casts[1].tensor, "fc1 output gradient");
    EXPECT_EQ(r.casts[1].flushed, 300000u);
    EXPECT_EQ(r.casts[1].scale_change, 0);
  }
  EXPECT_TRUE(synthetic_report().casts.empty());
}

// Of all 12 steps, the two that are left out of the other figures included.
TEST(Reports, checkpoints_over_ranks) {
  const auto all = Job(false, true).reports(12, {.tokens_per_step = 1}, 2);
  for (const Report& r : all) {
    ASSERT_TRUE(r.checkpoints);
    EXPECT_EQ(r.checkpoints->written, 2);
    EXPECT_EQ(r.checkpoints->failed, 1);
    EXPECT_EQ(r.checkpoints->waited, 1);
    EXPECT_EQ(r.checkpoints->bytes, 8000000000u);
    EXPECT_NEAR(r.checkpoints->held_up_s, 12 * 0.05 + 0.2, kTolerance);
    EXPECT_EQ(r.checkpoints->worst_rank, 2);
    EXPECT_NEAR(r.checkpoints->held_up_each_s(), 0.8 / 3, kTolerance);
    EXPECT_NEAR(r.checkpoints->durable_mean_s, 2.5, kTolerance);
    EXPECT_EQ(r.checkpoints->durable_longest_s, 3);
    EXPECT_NEAR(r.checkpoints->bytes_per_s, 1.6e9, 1);
    EXPECT_NEAR(r.checkpoints->slowest_bytes_per_s, 0.5e9, 1);
    EXPECT_EQ(r.checkpoints->slowest_rank, 1);
    EXPECT_NEAR(row(r.times.mean, "checkpoint_stall").max, 0.05, kTolerance);
  }
  EXPECT_FALSE(synthetic_report().checkpoints);
}

// Ranks 2 and 3 take 1.15 and 1.05 s for their steps, and wait 0.2 and 0.3 s for the checkpoint behind the last one.
TEST(Reports, the_last_checkpoint_counts_for_the_figure_of_merit) {
  const auto all = Job(false, true).reports(12, {.tokens_per_step = 1e6, .flops_per_step = 1e15}, 2);
  for (const Report& r : all) {
    EXPECT_NEAR(r.tokens_per_s, 1e7 / 1.35, 1e-3);
    EXPECT_NEAR(r.flops_per_s_per_rank, 1e16 / 1.35 / 4, 1e6);
    EXPECT_NEAR(row(r.times.mean, "step").max, 0.115, kTolerance) << "it belongs to no step";
  }
}

TEST(Reports, no_checkpoint_was_written) {
  const CheckpointCounts none{.failed = 1};
  const auto all = Job().reports(3, {.tokens_per_step = 1, .checkpoints = none});
  EXPECT_EQ(all[0].checkpoints->bytes_per_s, 0);
  EXPECT_EQ(all[0].checkpoints->slowest_bytes_per_s, 0);
  EXPECT_EQ(all[0].checkpoints->durable_mean_s, 0);
  EXPECT_EQ(to_text(all[0]).find("durable"), std::string::npos);
}

TEST(Text, has_the_tables) {
  const std::string text = to_text(synthetic_report());
  expect_line(text, "phase +min ms +mean ms +max ms +share % +worst rank");
  expect_line(text, R"(forward +30\.000 +32\.500 +40\.000 +30\.23  2 \(node01\))");
  expect_line(text, R"(  gemm +20\.000 +22\.500 +30\.000 +20\.93  2 \(node01\))");
  expect_line(text, R"(gather_wait +9\.000 +9\.000 +9\.000 +8\.37  0 \(node00\))");
  expect_line(text, R"(step +105\.000 +107\.500 +115\.000 +100\.00  2 \(node01\))");
  expect_line(text, R"(named phases cover 99\.07 % of the step)");
  expect_line(text, R"(step time: p50 110\.000 ms, p95 137\.500 ms, p99 155\.500 ms over 10 steps \(2 left out\))");
  expect_line(text,
              "collective +group\\(size\\) +dtype +bytes +calls/step +ms/call +exposed ms +algbw GB/s +busbw GB/s");
  expect_line(text, R"(all_gather +shard\(4\) +bf16 +8000000 +2\.00 +4\.000 +2\.000 +2\.000 +1\.500)");
}

TEST(Text, has_the_exchanges_before_the_collectives) {
  const std::string text = to_text(Job().reports(12, with_methods(), 2)[0]);
  expect_line(text, "exchanges of the tensor group +method +exposed ms +max ms +share % +worst rank");
  expect_line(text, R"(fc1_fprop +off +1\.500 +3\.000 +1\.40  2 \(node01\))");
  expect_line(text, R"(qkv_dgrad +bulk +4\.000 +4\.000 +3\.72  0 \(node00\))");
  expect_line(text, R"(other +1\.500 +2\.000 +1\.40  0 \(node00\))");
  expect_line(text, R"(all +7\.000 +7\.000 +6\.51  [0-3] \(node0[01]\))");
  EXPECT_LT(text.find("\nstep time: "), text.find("\nexchanges of "));
  EXPECT_LT(text.find("\nall "), text.find("\ncollective "));
  EXPECT_EQ(to_text(synthetic_report()).find("\nexchanges of "), std::string::npos);
}

CompareOff compared() {
  CompareOff c{.with = {{0.001, 0.002}, {0.003, 0.009}}, .without = {{0.004, 0.004}, {0.006, 0.001}}};
  c.block_steps = 3;
  c.left_out = 1;
  return c;
}

TEST(CompareOff, medians_of_all_blocks) {
  EXPECT_NEAR(compared().with_s(), 0.0025, kTolerance);
  EXPECT_NEAR(compared().without_s(), 0.004, kTolerance);
  EXPECT_NEAR(compared().ratio(), 0.625, kTolerance);
  EXPECT_EQ(compared().blocks(), 4);
}

TEST(CompareOff, stands_before_the_verdict) {
  Report report = synthetic_report();
  EXPECT_EQ(to_text(report).find("step time with overlap"), std::string::npos);
  report.compare_off = compared();
  const std::string line = "step time with overlap 2.500 ms, without 4.000 ms (ratio 0.625, blocks 4)";
  EXPECT_NE(to_text(report).find("\n" + line + "\nVERIFICATION: "), std::string::npos) << to_text(report);
  report.compare_off->cut_short = "SIGTERM";
  EXPECT_NE(to_text(report).find("\n" + line + ", cut short by SIGTERM\n"), std::string::npos);
  report.compare_off->with.clear();
  report.compare_off->without.clear();
  expect_line(to_text(report), "step time with overlap: not compared with off, cut short by SIGTERM");
}

TEST(Text, has_quantize_after_the_optimizer) {
  const std::string text = to_text(synthetic_report());
  expect_line(text, R"(optimizer +4\.000 +4\.000 +4\.000 +3\.72  0 \(node00\))");
  expect_line(text, R"(quantize +2\.000 +2\.000 +2\.000 +1\.86  0 \(node00\))");
  const std::vector<std::string> order = {"\ndata ",        "\ngather_wait ", "\nforward ",  "\nbackward ",
                                          "\nreduce_wait ", "\noptimizer ",   "\nquantize ", "\ncheckpoint_stall ",
                                          "\nother ",       "\nstep "};
  for (std::size_t i = 1; i < order.size(); ++i) {
    EXPECT_LT(text.find(order[i - 1]), text.find(order[i])) << order[i];
    EXPECT_NE(text.find(order[i]), std::string::npos) << order[i];
  }
}

TEST(Text, has_the_checkpoints_before_the_figures) {
  const std::string text = to_text(Job(false, true).reports(12, {.tokens_per_step = 1}, 2)[0]);
  expect_line(text, "checkpoints: 2   failed: 1   bytes: 8000000000   waited for the one before: 1");
  expect_line(text, R"(checkpoint hold-up: 0\.800 s   per checkpoint: 0\.267 s   worst rank: 2 \(node01\))");
  expect_line(text, R"(checkpoint durable after: 2\.500 s   longest: 3\.000 s)");
  expect_line(text, R"(checkpoint GB/s: 1\.600   slowest rank: 0\.500 \(1, node00\))");
  expect_line(text, R"(checkpoint_stall +10\.000 +20\.000 +50\.000 .*  2 \(node01\))");
  EXPECT_LT(text.find("checkpoints: "), text.find("tokens/s: "));
  EXPECT_EQ(to_text(synthetic_report()).find("checkpoints: "), std::string::npos);
}

TEST(Text, has_the_casts_after_the_collectives) {
  const std::string text = to_text(synthetic_fp8_reports()[0]);
  expect_line(text, "casts to 8 bits +dtype +elements +saturated +flushed to 0 +scale change");
  // 6 and 600 elements of 4000006; 0 and 300000 elements of 4000000.
  expect_line(text, R"(qkv input +e4m3 +4000006 +6 +1\.5 ppm +600 +0\.015 % +2\.5x)");
  expect_line(text, R"(fc1 output gradient +e5m2 +4000000 +0 +300000 +7\.5 % +-)");
  EXPECT_LT(text.find("collective "), text.find("casts to 8 bits"));
  EXPECT_LT(text.find("casts to 8 bits"), text.find("tokens/s: "));
  EXPECT_EQ(to_text(synthetic_report()).find("casts"), std::string::npos);
  // Casts count from the start of the run, in left-out steps too.
  expect_line(to_text(synthetic_fp8_reports(1)[0]), R"(qkv input +e4m3 +4000006 .*)");
}

TEST(Text, labels_every_time_of_emulated_products) {
  const std::string text = to_text(synthetic_fp8_reports()[0]);
  expect_line(text, R"(  gemm \(emulated\) +20\.000 +22\.500 +30\.000 +20\.93  2 \(node01\))");
  expect_line(text, R"(  gemm \(emulated\) +40\.000 +40\.000 +40\.000 +37\.21  0 \(node00\))");
  expect_line(text, "matrix products: mxfp8, emulated: decoded to bf16");
  EXPECT_EQ(text.find("gemm  "), std::string::npos);
  // The columns of the longer label are still below their headings.
  const auto line_of = [&text](const std::string& begin) {
    const auto at = text.find(begin);
    return text.substr(at, text.find('\n', at) - at);
  };
  EXPECT_EQ(line_of("phase ").find("min ms") + 6, line_of("  gemm (emulated)").find("20.000") + 6);
  EXPECT_EQ(to_text(synthetic_report()).find("emulated"), std::string::npos);
}

TEST(Text, has_the_block_of_figures) {
  const std::string text = to_text(synthetic_report());
  expect_line(
      text,
      R"(tokens/s: 8695652\.2   tokens/s/rank: 2173913\.0   model TFLOP/s/rank: 2173\.9   exposed communication: 17\.67 %)");
  expect_line(text, R"(Figure of Merit \(FOM\): 8695652\.2 tokens/s)");
  EXPECT_EQ(text.find("MFU"), std::string::npos);
  expect_line(to_text(synthetic_report({}, 1e16)), R"(MFU: 21\.74 % of 10000\.0 TFLOP/s per rank)");
}

TEST(Text, ends_with_the_verification) {
  const auto last_line = [](const std::string& text) { return text.substr(text.rfind('\n', text.size() - 2) + 1); };
  using Status = Verification::Status;
  EXPECT_EQ(last_line(to_text(synthetic_report({Status::passed, ""}))), "VERIFICATION: PASSED\n");
  EXPECT_EQ(last_line(to_text(synthetic_report({Status::failed, "final loss 5.5 > 3"}))),
            "VERIFICATION: FAILED: final loss 5.5 > 3\n");
  EXPECT_EQ(last_line(to_text(synthetic_report())), "VERIFICATION: NOT CONFIGURED\n");
  EXPECT_EQ(last_line(to_text(synthetic_report({Status::not_reached, ""}))), "VERIFICATION: NOT REACHED\n");
  EXPECT_EQ(last_line(to_text(synthetic_report({Status::not_checked, "2 < 3"}))), "VERIFICATION: NOT CHECKED: 2 < 3\n");
}

TEST(Text, says_when_nothing_was_measured) {
  const Report r = Job().reports(3, {.tokens_per_step = 1e6, .verification = {Verification::Status::passed, ""}}, 5)[0];
  EXPECT_EQ(to_text(r), "no step was measured: all 3 were left out (run.timing_skip)\nVERIFICATION: PASSED\n");
  EXPECT_EQ(r.tokens_per_s, 0);
}

}  // namespace
}  // namespace shard8::profile::tests
