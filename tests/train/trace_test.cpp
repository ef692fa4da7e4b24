// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "operation/operation.hpp"
#include "profile/trace_recorder.hpp"
#include "tests/train/decks.hpp"
#include "tests/train/training.hpp"
#include "trace/rank_trace.hpp"

// The trace of a training: it changes no bit, its spans are the step, and its phases are those of the report.

namespace shard8 {
namespace {

using profile::TraceRecorder;
using test::Training;
using test::Variant;

constexpr int kSteps = 4;
constexpr std::int64_t kFirst = 1, kLast = 2;

std::vector<deck::Config> decks() {
  const bool four = test::world_size() == 4;
  Variant v;
  v.mesh = four ? std::array{1, 2, 2} : std::array{1, 1, 2};
  Variant gpt2 = v;
  gpt2.arch = "gpt2";
  gpt2.micro_batch = 2;
  if (!four) gpt2.mesh = {1, 2, 1};
  return {test::small_deck(v, kSteps, "overlap: {enable: true}"), test::small_deck(v, kSteps),
          test::small_deck(gpt2, kSteps)};
}

struct Traced {
  std::vector<train::StepResult> results;
  std::vector<test::Hashed> hashes;
  std::vector<profile::StepTimes> times;
  trace::RankTrace trace;
  int products = 0;  ///< of the traced steps
};

Traced train(deck::Config config, TraceRecorder* recorder) {
  Traced traced;
  config.run.timing_skip = 0;
  Training training(config, MPI_COMM_WORLD);
  operation::Observer observer;
  observer.product = [&](const operation::Product&) {
    if (training.timer().trace() != nullptr) ++traced.products;
  };
  training.trainer().observe(&observer);
  training.timer().set_trace(recorder);
  training.log().set_trace(recorder);
  training.timer().set_trace_origin();
  training.mesh().world.set_trace_origin();
  traced.results = training.run(0, kSteps);
  for (const auto& block : training.timer().steps().blocks()) traced.times.push_back(block.sum);
  if (recorder != nullptr) {
    std::vector<std::string> units;
    for (std::size_t u = 0; u < training.setup().units.size(); ++u) units.push_back("unit " + std::to_string(u));
    trace::take_spans(traced.trace, *recorder, units);
  }
  training.timer().set_trace(nullptr);
  training.log().set_trace(nullptr);
  training.trainer().observe(nullptr);
  traced.hashes = test::hashes_of(training);
  return traced;
}

Traced train_traced(const deck::Config& config) {
  TraceRecorder recorder({{kFirst, kLast}}, 0);
  return train(config, &recorder);
}

/// Every deck, traced once.
const std::vector<Traced>& traced_decks() {
  static const std::vector<Traced> all = [] {
    std::vector<Traced> made;
    for (const deck::Config& config : decks()) made.push_back(train_traced(config));
    return made;
  }();
  return all;
}

std::vector<trace::Span> spans_of(const Traced& traced, trace::Span::Kind kind, std::int64_t step) {
  std::vector<trace::Span> spans;
  for (const trace::Span& span : traced.trace.spans)
    if (span.kind == kind && span.step == step) spans.push_back(span);
  return spans;
}

TEST(Trace, ChangesNoBit) {
  for (std::size_t d = 0; d < decks().size(); ++d) {
    const Traced& with = traced_decks()[d];
    const Traced without = train(decks()[d], nullptr);
    ASSERT_EQ(with.results.size(), without.results.size());
    for (std::size_t s = 0; s < with.results.size(); ++s) {
      EXPECT_EQ(with.results[s].loss, without.results[s].loss) << "step " << s;
      EXPECT_EQ(with.results[s].gradient_norm, without.results[s].gradient_norm) << "step " << s;
    }
    EXPECT_EQ(with.hashes, without.hashes);
  }
}

TEST(Trace, SpansAreTheStep) {
  for (const Traced& traced : traced_decks()) {
    ASSERT_EQ(traced.trace.steps.size(), 2u);
    std::int64_t end_of_last = 0;
    double covered = 0;  // of the best step: a rank that loses its core between two phases has a long one
    for (const trace::Step& step : traced.trace.steps) {
      EXPECT_GE(step.begin, end_of_last);
      std::int64_t at = step.begin;
      for (const trace::Span& span : spans_of(traced, trace::Span::Kind::work, step.number)) {
        EXPECT_GE(span.begin, at) << span.title();
        EXPECT_LE(span.begin - at, 1000) << "nothing before " << span.title();
        EXPECT_GT(span.end, span.begin) << span.title();
        at = span.end;
      }
      EXPECT_NEAR(double(at), double(step.end), 1000);
      end_of_last = step.end;
      double named = 0;
      for (const trace::Span& span : spans_of(traced, trace::Span::Kind::work, step.number))
        if (span.phase != "other") named += double(span.end - span.begin);
      covered = std::max(covered, named / double(step.end - step.begin));
    }
    EXPECT_GE(covered, 0.95);
  }
}

TEST(Trace, PhasesAreThoseOfTheReport) {
  for (const Traced& traced : traced_decks()) {
    for (const trace::Step& step : traced.trace.steps) {
      const profile::StepTimes& times = traced.times[static_cast<std::size_t>(step.number)];
      for (int p = 0; p < profile::kPhases; ++p) {
        double seconds = 0;
        int spans = 0;
        for (const trace::Span& span : spans_of(traced, trace::Span::Kind::work, step.number)) {
          if (span.phase != name_of(static_cast<profile::Phase>(p))) continue;
          seconds += 1e-9 * double(span.end - span.begin);
          ++spans;
        }
        const double want = times.phase[static_cast<std::size_t>(p)];
        EXPECT_NEAR(seconds, want, 0.01 * want + 1e-9 * spans) << name_of(static_cast<profile::Phase>(p));
      }
    }
  }
}

TEST(Trace, ProductsHaveSitesAndShapes) {
  for (const Traced& traced : traced_decks()) {
    int products = 0;
    std::set<std::string> linears;
    for (const trace::Span& span : traced.trace.spans) {
      if (span.part != "gemm") continue;
      ++products;
      linears.insert(span.linear + ' ' + span.name);
      EXPECT_GT(span.m * span.n * span.k, 0) << span.title();
      EXPECT_FALSE(span.unit.empty()) << span.title();
      EXPECT_EQ(span.flops, 2.0 * double(span.m) * double(span.n) * double(span.k));
    }
    EXPECT_EQ(products, traced.products);
    for (const char* linear : {"qkv", "proj", "fc1", "fc2", ""})
      for (const char* kind : {" fprop", " dgrad", " wgrad"}) EXPECT_TRUE(linears.contains(std::string(linear) + kind));
  }
}

TEST(Trace, CollectivesAreThoseOfTheLog) {
  {
    TraceRecorder recorder({{0, kSteps - 1}}, 0);
    const Traced traced = train(decks().front(), &recorder);
    std::size_t calls = 0;
    for (const profile::CallSpan& call : recorder.calls()) {
      EXPECT_GT(call.bytes, 0u);
      EXPECT_GE(call.ranks, 2);
      ++calls;
      if (call.end == 0) continue;  // a gather for a step that is not trained
      EXPECT_GE(call.end, call.begin);
      EXPECT_GE(call.waited, call.end);
      EXPECT_LE(call.exposed, call.waited - call.begin);
    }
    EXPECT_GT(calls, 0u);
    // What a rank waited lies inside of spans that wait.
    double exposed = 0, waits = 0;
    for (const trace::Span& span : traced.trace.spans) {
      if (span.kind == trace::Span::Kind::collective) exposed += double(span.exposed);
      if (span.is_wait()) waits += double(span.end - span.begin);
    }
    EXPECT_LE(exposed, 1.01 * waits + 1e5);
  }
}

// Steps that are not traced leave nothing behind.
TEST(Trace, OtherStepsCostNothing) {
  TraceRecorder recorder({{kSteps + 7, kSteps + 9}}, 0);
  const Traced traced = train(decks().front(), &recorder);
  EXPECT_EQ(traced.products, 0);
  EXPECT_TRUE(recorder.notes().empty());
  EXPECT_TRUE(recorder.work().empty());
  EXPECT_TRUE(recorder.calls().empty());
  EXPECT_TRUE(recorder.issues().empty());
  EXPECT_TRUE(recorder.steps().empty());
}

TEST(Trace, StepsThatAreWanted) {
  const TraceRecorder recorder({{2, 3}, {7, 7}}, 0);
  std::vector<std::int64_t> wanted;
  for (std::int64_t step = 0; step < 10; ++step)
    if (recorder.wants(step)) wanted.push_back(step);
  EXPECT_EQ(wanted, (std::vector<std::int64_t>{2, 3, 7}));
}

}  // namespace
}  // namespace shard8
