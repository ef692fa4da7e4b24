// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "bench/calibrate.hpp"

namespace shard8::bench {
namespace {

using machine::Load;
using operation::Kernel;
using operation::Operation;
using operation::Product;
using profile::Part;
using profile::TraceRecorder;

Operation product(std::int64_t rows) {
  Operation o;
  o.what = Product{.rows = rows, .cols = 64, .inner = 32, .bias = true};
  return o;
}

Operation kernel(std::uint64_t bytes) {
  Operation o;
  o.read = bytes;
  o.what = Kernel{.name = "cast", .rows = 1, .cols = 1};
  return o;
}

/// A trace of steps that are made by hand, in microseconds.
class MadeTrace {
 public:
  explicit MadeTrace(std::int64_t steps) : recorder_({{0, steps - 1}}, 0) {}

  void begin_step() { recorder_.begin_step(); }
  /// A part of so many microseconds; `issued` before its begin.
  int part(const char* name, Part part, std::int64_t us, std::int64_t rows = 0, std::int64_t issued = 1000) {
    const int note = recorder_.add_note(name);
    profile::TraceNote& n = recorder_.note(note);
    n.issued = 1000 * (at_ - issued);
    n.issue_ended = n.issued + 5000;
    if (rows > 0) {
      n.m = rows;
      n.n = 64;
      n.k = 32;
    }
    again(note, part, us);
    return note;
  }
  /// More of a part that was suspended.
  void again(int note, Part part, std::int64_t us) {
    recorder_.add_work({1000 * at_, 1000 * (at_ + us), recorder_.step(), static_cast<int>(profile::Phase::forward),
                        static_cast<int>(part), profile::kExchanges, note});
    at_ += us;
  }
  void wait(std::int64_t us) {
    recorder_.add_work({1000 * at_, 1000 * (at_ + us), recorder_.step(), static_cast<int>(profile::Phase::gather_wait),
                        -1, profile::kExchanges, -1});
    at_ += us;
  }
  void besides(std::int64_t us) {
    recorder_.add_work({1000 * at_, 1000 * (at_ + us), recorder_.step(), static_cast<int>(profile::Phase::other), -1,
                        profile::kExchanges, -1});
    at_ += us;
  }
  void call(std::int64_t begin, std::int64_t end, profile::Collective op = profile::Collective::all_gather,
            const char* group = "shard") {
    profile::CallSpan call;
    call.op = op;
    call.group = group;
    call.ranks = 2;
    call.bytes = 4096;
    recorder_.completed(recorder_.issued(call), 1000 * begin, 1000 * end, 0, 0);
  }
  void end_step(std::int64_t begin) { recorder_.add_step({recorder_.step(), 1000 * begin, 1000 * at_}); }
  std::int64_t now() const { return at_; }
  RankTimes times(const operation::Operations& step, bool on_device = false, bool with_experts = false) const {
    return times_of(recorder_, step, on_device, {{"shard", {1, 2}}, {"replicate", {2, 1}}}, with_experts);
  }

 private:
  TraceRecorder recorder_;
  std::int64_t at_ = 10'000;
};

TEST(CalibrateTimes, JoinsSpansWithOperations) {
  operation::Operations step;
  step.list = {product(16), kernel(100), kernel(200)};
  MadeTrace trace(1);
  trace.begin_step();
  const std::int64_t begin = trace.now();
  trace.besides(3);
  const int note = trace.part("fprop", Part::gemm, 40, 16);
  trace.wait(7);
  trace.again(note, Part::gemm, 20);
  trace.part("push", Part::tensor_comm, 11);
  trace.part("cast", Part::elementwise, 5);
  trace.part("cast", Part::elementwise, 9);
  trace.call(begin + 3, begin + 3 + 15);
  trace.end_step(begin);
  const RankTimes times = trace.times(step);
  EXPECT_EQ(times.left_out, 0);
  ASSERT_EQ(times.work.size(), 3u);
  const auto& calls = times.work.at(WorkKey::of(step.list[0]));
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_NEAR(calls[0].seconds, 60e-6, 1e-9);
  EXPECT_NEAR(calls[0].in_flight.any(), 0.25, 1e-9);
  EXPECT_FALSE(calls[0].held);
  EXPECT_NEAR(times.work.at(WorkKey::of(step.list[1]))[0].seconds, 5e-6, 1e-9);
  EXPECT_NEAR(times.work.at(WorkKey::of(step.list[2]))[0].seconds, 9e-6, 1e-9);
  EXPECT_NEAR(times.computed_s.at(0), 74e-6, 1e-9);
  EXPECT_NEAR(times.besides_s.at(0), 3e-6, 1e-9);
  EXPECT_NEAR(times.total_s.at(0), 95e-6, 1e-9);
  ASSERT_EQ(times.collectives.size(), 1u);
  EXPECT_NEAR(times.collectives[0].seconds, 15e-6, 1e-9);
  EXPECT_NEAR(times.collectives[0].shared, 1, 1e-9);
  EXPECT_NEAR(times.collectives[0].link_s, 15e-6, 1e-9);
  EXPECT_NEAR(times.collectives[0].link_shared, 1, 1e-9);
  EXPECT_EQ(times.collectives[0].ranks, 2);
}

// Gathers inside a node are copies, reduce-scatters are sums, all-reduces and what passes between nodes are neither.
TEST(CalibrateTimes, TellsWhichLoadsWereInFlight) {
  operation::Operations step;
  step.list = {product(16), product(16)};
  MadeTrace trace(1);
  trace.begin_step();
  const std::int64_t begin = trace.now();
  trace.part("fprop", Part::gemm, 100, 16);
  trace.part("fprop", Part::gemm, 100, 16);
  using profile::Collective;
  trace.call(begin - 50, begin + 40);
  trace.call(begin + 10, begin + 40);  // two of one load count once
  trace.call(begin + 30, begin + 60, Collective::reduce_scatter);
  trace.call(begin + 55, begin + 70, Collective::all_reduce);
  trace.call(begin + 160, begin + 500, Collective::all_gather, "replicate");
  trace.end_step(begin);
  const RankTimes times = trace.times(step);
  const auto& calls = times.work.at(WorkKey::of(step.list[0]));
  ASSERT_EQ(calls.size(), 2u);
  const std::size_t collective = set_of(Load::collective), copies = set_of(Load::copies), sums = set_of(Load::sums);
  const auto& first = calls[0].in_flight.share;
  EXPECT_NEAR(first[copies], 0.3, 1e-9);
  EXPECT_NEAR(first[copies | sums], 0.1, 1e-9);
  EXPECT_NEAR(first[sums], 0.15, 1e-9);
  EXPECT_NEAR(first[sums | collective], 0.05, 1e-9);
  EXPECT_NEAR(first[collective], 0.1, 1e-9);
  EXPECT_NEAR(first[0], 0.3, 1e-9);
  EXPECT_NEAR(calls[1].in_flight.share[collective], 0.4, 1e-9);
  EXPECT_NEAR(calls[1].in_flight.any(), 0.4, 1e-9);
}

// 10 us alone, 8 us with one other, 3 us with two, and the last one's 4 us alone; products run in the first 12 us.
TEST(CalibrateTimes, CollectivesInFlightShareTheLink) {
  operation::Operations step;
  step.list = {product(16)};
  MadeTrace trace(1);
  trace.begin_step();
  const std::int64_t begin = trace.now();
  trace.part("fprop", Part::gemm, 12, 16);
  trace.wait(13);
  trace.call(begin, begin + 21);
  trace.call(begin + 10, begin + 21);
  trace.call(begin + 18, begin + 25);
  trace.end_step(begin);
  const RankTimes times = trace.times(step);
  ASSERT_EQ(times.collectives.size(), 3u);
  const double link[] = {10 + 4 + 1, 4 + 1, 1 + 4}, beside[] = {10 + 1, 1, 0};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(times.collectives[i].link_s, 1e-6 * link[i], 1e-12) << i;
    EXPECT_NEAR(times.collectives[i].link_shared, beside[i] / link[i], 1e-9) << i;
  }
}

// Nothing is known of what ran beside calls of the step before, so these are no times of calls alone.
TEST(CalibrateTimes, CollectivesAreThoseOfTracedSteps) {
  operation::Operations step;
  step.list = {product(16)};
  MadeTrace trace(2);
  const std::int64_t first = trace.now();
  trace.call(first - 900, first - 100);
  trace.call(first - 50, first + 20);
  for (int i = 0; i < 2; ++i) {
    trace.begin_step();
    const std::int64_t begin = trace.now();
    trace.part("fprop", Part::gemm, 40, 16);
    trace.call(begin + 10, begin + 30);
    trace.call(begin + 35, begin + 60);  // past the end of its step
    trace.end_step(begin);
  }
  trace.call(trace.now(), trace.now() + 20);
  const RankTimes times = trace.times(step);
  ASSERT_EQ(times.collectives.size(), 4u);
  for (const std::size_t i : {0U, 2U}) {
    EXPECT_NEAR(times.collectives[i].seconds, 20e-6, 1e-12);
    EXPECT_NEAR(times.collectives[i].shared, 1, 1e-9);
  }
}

TEST(CalibrateTimes, LeavesOutStepsThatDiffer) {
  operation::Operations step;
  step.list = {product(16), kernel(100)};
  MadeTrace trace(4);
  const auto made = [&](const std::vector<std::pair<const char*, std::int64_t>>& parts) {
    trace.begin_step();
    const std::int64_t begin = trace.now();
    for (const auto& [name, rows] : parts) trace.part(name, rows > 0 ? Part::gemm : Part::elementwise, 5, rows);
    trace.end_step(begin);
  };
  made({{"fprop", 16}, {"cast", 0}});
  made({{"fprop", 32}, {"cast", 0}});
  made({{"fprop", 16}});
  made({{"cast", 0}, {"fprop", 16}});
  const RankTimes times = trace.times(step);
  EXPECT_EQ(times.left_out, 3);
  EXPECT_EQ(times.computed_s.size(), 1u);
}

TEST(CalibrateTimes, SaysWhereADeviceWaitsForItsHost) {
  operation::Operations step;
  step.list = {product(16), product(32)};
  MadeTrace trace(1);
  trace.begin_step();
  const std::int64_t begin = trace.now();
  trace.part("fprop", Part::gemm, 50, 16);
  trace.part("fprop", Part::gemm, 50, 32, 5);  // issued 5 us before the first one ended
  trace.end_step(begin);
  const RankTimes times = trace.times(step, true);
  EXPECT_TRUE(times.work.at(WorkKey::of(step.list[0]))[0].held);
  EXPECT_NEAR(times.issue_s[0].at(0), 5e-6, 1e-9);
  EXPECT_FALSE(trace.times(step, false).work.at(WorkKey::of(step.list[0]))[0].held);
}

TEST(CalibrateTimes, KeysGiveBackWhatTheyAreOf) {
  const Product p{.kind = Product::Kind::wgrad,
                  .rows = 1,
                  .cols = 2,
                  .inner = 3,
                  .left = {tensor::DType::e5m2, tensor::Scaling::column_128, true},
                  .right = {tensor::DType::e4m3, tensor::Scaling::tile_128, false},
                  .out = tensor::DType::fp32,
                  .accumulate = true};
  EXPECT_EQ(WorkKey::of(p).product(), p);
  const operation::Attention a{
      .backward = true,
      .shape = {.batch = 1, .seq = 2, .heads = 4, .kv_heads = 2, .head_dim = 8, .deterministic = false},
      .dtype = tensor::DType::bf16};
  EXPECT_EQ(WorkKey::of(a).attention(), a);
}

DeckTimes deck_of(const WorkKey& key, const std::vector<TracedCall>& calls) {
  DeckTimes deck;
  deck.deck = "made";
  RankTimes rank;
  rank.work[key] = calls;
  rank.computed_s = {1.0, 1.2};
  rank.besides_s = {0.1, 0.1};
  deck.ranks = {rank, rank};
  deck.ranks[1].computed_s = {1.1, 1.3};
  return deck;
}

TEST(CalibrateTimes, FindsSlowdowns) {
  const WorkKey key = WorkKey::of(product(16));
  std::vector<TracedCall> calls(5, {.seconds = 100e-6});
  // A factor of 1.3 on the share.
  for (const double share : {0.25, 0.5, 0.6, 0.75, 1.0})
    calls.push_back(
        {.seconds = 100e-6 / (1 - share + share / 1.3), .in_flight = InFlight::of(Load::collective, share)});
  const std::vector<DeckTimes> decks{deck_of(key, calls)};
  const Slowdowns slowdowns = slowdowns_of(decks, Load::product, true, false);
  const auto& slowdown = slowdowns[index_of(Load::collective)];
  ASSERT_TRUE(slowdown);
  EXPECT_NEAR(slowdown->factor, 1.3, 1e-9);
  EXPECT_EQ(slowdown->calls, 10);
  EXPECT_FALSE(slowdowns[index_of(Load::copies)]);
  for (const auto& none : slowdowns_of(decks, Load::kernel, true, false)) EXPECT_FALSE(none);

  // Work that never runs alone is corrected with it.
  std::vector<DeckTimes> both = decks;
  both[0].ranks[0].work[WorkKey::of(product(32))] =
      std::vector<TracedCall>(4, {.seconds = 100e-6 / (0.5 + 0.5 / 1.3), .in_flight = InFlight::of(Load::sums, 0.5)});
  machine::Machine m;
  const int source = m.add_source(machine::Source::Kind::measured, "here", "test");
  const auto remarks = add_work(m, both, false, source);
  ASSERT_EQ(m.products.size(), 2u);
  EXPECT_NEAR(m.products[0].seconds, 100e-6, 1e-12);
  EXPECT_EQ(m.products[0].product.rows, 16);
  EXPECT_FALSE(m.products[0].product.bias);
  EXPECT_NEAR(m.products[1].seconds, 100e-6, 1e-12);
  EXPECT_EQ(remarks.size(), 1u);
  EXPECT_NEAR(m.slowed_by(Load::product, Load::collective), 1.3, 1e-9);
  EXPECT_NEAR(m.spread_ranks.value, 0.1 / std::sqrt(2.0) / 1.15, 1e-6);
  EXPECT_NEAR(m.spread_steps.value, 0.5 * 0.2 / std::sqrt(2.0) * (1 / 1.1 + 1 / 1.2), 1e-6);
  EXPECT_NEAR(m.issue_step.value, 0.1, 1e-12);
  EXPECT_FALSE(m.issue_product.given());
}

/// Calls of 100 us beside loads with these factors, which are in flight alone and at once.
std::vector<TracedCall> calls_slowed_by(double copies_factor, double sums_factor) {
  const std::size_t copies = set_of(Load::copies), sums = set_of(Load::sums);
  std::vector<TracedCall> calls(5, {.seconds = 100e-6});
  for (int i = 0; i < 60; ++i) {
    InFlight f{.share = {}};
    f.share[copies] = 0.05 * (i % 4);
    f.share[sums] = 0.1 * (i % 3);
    f.share[copies | sums] = 0.1 * (i % 5);
    f.share[0] = 1 - f.share[copies] - f.share[sums] - f.share[copies | sums];
    const double rate = f.share[0] + f.share[copies] / copies_factor + f.share[sums] / sums_factor +
                        f.share[copies | sums] / (copies_factor * sums_factor);
    calls.push_back({.seconds = 100e-6 / rate, .in_flight = f});
  }
  return calls;
}

// A kernel that is slowed down less than others would be faster than memory without their factor.
TEST(CalibrateTimes, NothingIsFasterThanTheDevice) {
  std::vector decks{deck_of(WorkKey::of(kernel(1000)), calls_slowed_by(1.04, 2))};
  const TracedCall beside{.seconds = 100e-6, .in_flight = InFlight::of(Load::sums, 1)};
  decks[0].ranks[0].work[WorkKey::of(kernel(1'000'000))] = std::vector(4, beside);
  for (const auto& [bandwidth, seconds] : {std::pair{30e9, 50e-6}, {15e9, 100e-6}}) {  // 1 MB in 50 us are 20 GB/s
    machine::Machine m;
    m.copies_in_node = true;
    m.bandwidth = {bandwidth, 0, 0};
    EXPECT_EQ(add_work(m, decks, true, 0).size(), seconds < 60e-6 ? 1u : 2u);
    EXPECT_NEAR(m.kernels.at(1).seconds, seconds, 1e-9);
  }
}

TEST(CalibrateTimes, FindsTheSlowdownByEachLoad) {
  const WorkKey key = WorkKey::of(product(16));
  const std::vector<DeckTimes> decks{deck_of(key, calls_slowed_by(1.04, 1.2))};
  machine::Machine m;
  m.copies_in_node = true;
  const int source = m.add_source(machine::Source::Kind::measured, "here", "test");
  add_work(m, decks, true, source);
  EXPECT_NEAR(m.slowed_by(Load::product, Load::copies), 1.04, 1e-6);
  EXPECT_NEAR(m.slowed_by(Load::product, Load::sums), 1.2, 1e-6);
  EXPECT_FALSE(m.slowed[static_cast<std::size_t>(Load::product)][static_cast<std::size_t>(Load::collective)].given());
  ASSERT_EQ(m.products.size(), 1u);
  EXPECT_NEAR(m.products[0].seconds, 100e-6, 1e-12);
  // Where kernels move everything, there is one load.
  const Slowdowns one = slowdowns_of(decks, Load::product, true, false);
  ASSERT_TRUE(one[index_of(Load::collective)]);
  EXPECT_GT(one[index_of(Load::collective)]->factor, 1.04);
  EXPECT_LT(one[index_of(Load::collective)]->factor, 1.04 * 1.2);
  EXPECT_FALSE(one[index_of(Load::sums)]);
}

TEST(CalibrateTimes, LoadsThatAreSeldomAloneHaveNoSlowdown) {
  InFlight both{.share = {0.5}};
  both.share[set_of(Load::copies) | set_of(Load::collective)] = 0.5;
  std::vector<SharedCall> calls(5, {100e-6, 120e-6, both});
  for (std::int64_t i = 0; i < kEnoughBeside - 1; ++i)
    calls.push_back({100e-6, 110e-6, InFlight::of(Load::copies, 0.5)});
  for (const auto& none : fit_slowdowns(calls)) EXPECT_FALSE(none);
  for (const double share : {0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8})
    calls.push_back({100e-6, 100e-6 / (1 - share + share / 1.1), InFlight::of(Load::sums, share)});
  const Slowdowns slowdowns = fit_slowdowns(calls);
  EXPECT_FALSE(slowdowns[index_of(Load::collective)]);
  EXPECT_FALSE(slowdowns[index_of(Load::copies)]);
  ASSERT_TRUE(slowdowns[index_of(Load::sums)]);
  EXPECT_NEAR(slowdowns[index_of(Load::sums)]->factor, 1.1, 1e-6);
}

TEST(CalibrateTimes, SlowdownsLeaveOutOutliers) {
  std::vector<SharedCall> calls;
  for (int i = 0; i < 20; ++i) {
    const double share = 0.1 + 0.04 * i;
    calls.push_back(
        {50e-6, 50e-6 / (1 - share + share / 1.4) * (i % 2 == 0 ? 1.01 : 0.99), InFlight::of(Load::copies, share)});
  }
  calls.push_back({50e-6, 4000e-6, InFlight::of(Load::copies, 0.5)});  // lost its core
  const auto slowdown = fit_slowdowns(calls)[index_of(Load::copies)];
  ASSERT_TRUE(slowdown);
  EXPECT_NEAR(slowdown->factor, 1.4, 0.02);
  for (const auto& none : fit_slowdowns({})) EXPECT_FALSE(none);
  const std::vector<SharedCall> too_slow(20, {1, 100, InFlight::of(Load::copies, 1)});
  for (const auto& none : fit_slowdowns(too_slow)) EXPECT_FALSE(none);
}

// Ranks come to 100 calls of 50 us in 40 steps with a standard deviation of 10 us, rank 1 later by 3 % of the time
// since the call before, which is up to 10 ms, and once by 2 ms. If the steps' calls differ, only its mean is taken
// off.
TEST(CalibrateTimes, FindsHowUnevenlyRanksComeToCalls) {
  for (const std::size_t ranks : {2u, 4u}) {
    DeckTimes deck{.deck = "made", .ranks = std::vector<RankTimes>(ranks)};
    for (RankTimes& rank : deck.ranks) rank.computed_s.resize(40, 1);
    std::mt19937 random(7);
    std::normal_distribution<double> late(0, 10e-6);
    for (int i = 0; i < 4000; ++i) {
      std::vector<double> comes;
      for (std::size_t r = 0; r < ranks; ++r) comes.push_back(late(random) + (r == 1 ? 3e-6 * (i % 100) : 0));
      if (i == 200) comes[1] += 2e-3;
      const double last = *std::max_element(comes.begin(), comes.end());
      for (std::size_t r = 0; r < ranks; ++r)
        deck.ranks[r].collectives.push_back({.op = profile::Collective::all_gather,
                                             .nodes = 1,
                                             .ranks = static_cast<int>(ranks),
                                             .bytes = 1000,
                                             .seconds = 50e-6 + last - comes[r],
                                             .shared = i % 4 == 3 ? 0.5 : 0});  // these do not count
    }
    const auto spread_of = [](const DeckTimes& of) {
      machine::Machine m;
      add_work(m, std::vector<DeckTimes>{of}, true, m.add_source(machine::Source::Kind::measured, "here", "test"));
      return m.spread_calls.value;
    };
    EXPECT_NEAR(spread_of(deck), 10e-6, 0.5e-6) << ranks;
    for (RankTimes& rank : deck.ranks) rank.computed_s = {1, 1, 1};
    EXPECT_GT(spread_of(deck), 25e-6) << ranks;
  }
}

TEST(CalibrateTimes, HeldCallsCountOnlyWithoutOthers) {
  machine::Machine m;
  const int source = m.add_source(machine::Source::Kind::measured, "here", "test");
  DeckTimes deck = deck_of(WorkKey::of(product(16)), {{.seconds = 9e-6, .held = true}, {.seconds = 4e-6}});
  deck.ranks[0].work[WorkKey::of(product(32))] = {{.seconds = 8e-6, .held = true}};
  const std::vector<DeckTimes> decks{deck};
  const auto remarks = add_work(m, decks, true, source);
  ASSERT_EQ(m.products.size(), 2u);
  EXPECT_NEAR(m.products[0].seconds, 4e-6, 1e-12);
  EXPECT_NEAR(m.products[1].seconds, 8e-6, 1e-12);
  ASSERT_EQ(remarks.size(), 1u);
  EXPECT_NE(remarks[0].find("upper bounds"), std::string::npos);
}
}  // namespace
}  // namespace shard8::bench
