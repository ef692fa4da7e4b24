// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <cmath>

#include "tensor/transfer.hpp"
#include "tests/support/compare.hpp"
#include "tests/train/decks.hpp"
#include "tests/train/training.hpp"
#include "train/overlap/choice.hpp"

// Trainings whose rows come to experts by pushes train the same bits as by counts (model::ExpertExchange), and casts
// count the same elements. Memory that the trainings write anew in each step is NaN before each step, so nothing may
// read rows that a round does not use. On hosts each rank holds all experts; on devices the ranks share the experts.

namespace shard8 {
namespace {

constexpr int kSteps = 3;

struct Variant {
  const char* compute = "bf16";
  const char* recipe = "none";
  const char* format = "auto";
  const char* recompute = "none";
  const char* routing = "routing: learned";
  double capacity = 1;  ///< below 1, which no deck may have: several rounds on one rank as well
  int dense_layers = 0;
  const char* dispatch = "auto";
  int chunks = -1;  ///< parts of a round, 0: as the program chooses; -1: pushes do not overlap with products
  int experts = 8;
};

std::string name_of(const Variant& v) {
  return fmt::format("compute {}, {} {}, recompute {}, {}, capacity {}, dense {}, dispatch {}, chunks {}, experts {}",
                     v.compute, v.recipe, v.format, v.recompute, v.routing, v.capacity, v.dense_layers, v.dispatch,
                     v.chunks, v.experts);
}

deck::Config deck_of(const Variant& v) {
  const int ranks = test::world_size();
  const std::string text = fmt::format(
      R"(
model: {{hidden: 128, ffn: 256, layers: 2, heads: 2, kv_heads: 2, vocab: 64, seq: 128, recompute: {}}}
moe: {{experts: {}, experts_per_token: 2, ffn: 128, balance: 0.01, {}, dense_layers: {}, dispatch: {}}}
mesh: {{shard: {}, expert: {}}}
precision: {{compute: {}}}
fp8: {{recipe: {}, format: {}}}
overlap: {{enable: {}, dispatch: pipeline, combine: pipeline, chunks: {}}}
optimizer: {{lr: 0.002, warmup: 2, decay_steps: 100}}
data: {{kind: synthetic, batch: {}, micro_batch: 1}}
run: {{steps: {}}}
)",
      v.recompute, v.experts, v.routing, v.dense_layers, v.dispatch, ranks, tensor::kDevice ? ranks : 1, v.compute,
      v.recipe, v.format, v.chunks >= 0, std::max(v.chunks, 0), 2 * ranks, kSteps);
  deck::Config config = deck::load_text(text, "pushes.yaml").config;
  config.model.moe.capacity = v.capacity;
  return config;
}

void poison(const tensor::Exec& exec, const tensor::Tensor& t) {
  const std::vector<std::uint8_t> bytes(t.bytes(), 0xff);
  tensor::to_device(exec, {t.data, {static_cast<std::int64_t>(t.bytes())}, tensor::DType::u8}, bytes.data());
  tensor::finish(exec);
}

struct Result {
  std::vector<double> losses, norms;
  std::vector<test::Hashed> state;  ///< weights, moments, scales and amaxes at the end
  std::vector<profile::CastFigures> casts;
};

Result train(const Variant& v, bool pushes) {
  test::Training training(deck_of(v), MPI_COMM_WORLD, {.pushes = pushes});
  EXPECT_EQ(training.setup().dims.experts.pushes, pushes);
  train::State& state = training.trainer().state();
  Result result;
  for (int step = 0; step < kSteps; ++step) {
    for (const auto kind : {tensor::MemoryKind::activations, tensor::MemoryKind::pushed})
      poison(training.exec(), state.arenas[kind].since(0));
    poison(training.exec(), state.activations.layer_scratch.moe.all);
    training.mesh().world.barrier();
    const auto done = training.run(step, 1);
    result.losses.push_back(done.at(0).loss);
    result.norms.push_back(done.at(0).gradient_norm);
  }
  result.state = test::hashes_of(training);
  result.casts = state.scaling.figures(training.exec());
  return result;
}

void expect_same(const Variant& v) {
  SCOPED_TRACE(name_of(v));
  const Result pushed = train(v, true), counted = train(v, false);
  EXPECT_TRUE(tests::same_bits(pushed.losses, counted.losses)) << "loss by step";
  EXPECT_TRUE(tests::same_bits(pushed.norms, counted.norms)) << "gradient norm by step";
  EXPECT_EQ(pushed.state, counted.state);
  for (const double loss : pushed.losses) EXPECT_TRUE(std::isfinite(loss));
  EXPECT_NE(pushed.losses.front(), pushed.losses.back());
  ASSERT_EQ(pushed.casts.size(), counted.casts.size());
  for (std::size_t i = 0; i < pushed.casts.size(); ++i) {
    SCOPED_TRACE(pushed.casts[i].tensor);
    EXPECT_EQ(pushed.casts[i].elements, counted.casts[i].elements);
    EXPECT_EQ(pushed.casts[i].saturated, counted.casts[i].saturated);
    EXPECT_EQ(pushed.casts[i].flushed, counted.casts[i].flushed);
    EXPECT_EQ(pushed.casts[i].scale_change, counted.casts[i].scale_change);
  }
}

constexpr std::pair<const char*, const char*> kRecipes[] = {{"none", "auto"},  {"delayed", "auto"}, {"current", "auto"},
                                                            {"block", "auto"}, {"block", "hybrid"}, {"mxfp8", "auto"}};

TEST(PushedRows, TrainTheSameBits) {
  expect_same({.compute = "fp32"});
  for (const auto& [recipe, format] : kRecipes)
    for (const char* recompute : {"none", "selective", "full"})
      expect_same({.recipe = recipe, .format = format, .recompute = recompute});
}

TEST(PushedRows, CastAfterTheyArrive) {
  for (const char* recipe : {"delayed", "current"})
    for (const double capacity : {1.0, 0.3}) expect_same({.recipe = recipe, .capacity = capacity, .dispatch = "bf16"});
}

/// Experts without rows, and rounds with few of their rows in use.
TEST(PushedRows, UnevenRoutes) {
  for (const auto& [recipe, format] : kRecipes)
    for (const double capacity : {1.0, 4.0})
      expect_same({.recipe = recipe, .format = format, .routing = "routing: zipf, skew: 60", .capacity = capacity});
}

/// The rounds behind the last row are computed as well.
TEST(PushedRows, SeveralRounds) {
  for (const auto& [recipe, format] : kRecipes)
    for (const char* recompute : {"none", "selective"})
      expect_same({.recipe = recipe, .format = format, .recompute = recompute, .capacity = 0.3});
}

/// A round in parts, which overlap with products on devices: one expert a part, several, and all; one expert a rank.
TEST(PushedRows, InParts) {
  const int ranks = test::world_size();
  if (!tensor::kDevice || ranks == 1) GTEST_SKIP() << "rows are not pushed between ranks";
  const model::Overlap overlap = model::Overlap::make(deck_of({.chunks = 0}));
  ASSERT_TRUE(overlap.hidden(profile::Exchange::dispatch) && overlap.hidden(profile::Exchange::combine));
  ASSERT_GT(overlap.expert_chunks, 1);
  ASSERT_FALSE(model::Overlap::make(deck_of({.chunks = 1})).hidden(profile::Exchange::dispatch));
  expect_same({.compute = "fp32", .chunks = 0});
  for (const char* recipe : {"none", "delayed"}) expect_same({.recipe = recipe, .chunks = 0, .experts = ranks});
  for (const auto& [recipe, format] : kRecipes)
    for (const double capacity : {1.0, 0.3})
      for (const int chunks : {0, 1, 3, 16})
        expect_same({.recipe = recipe, .format = format, .capacity = capacity, .chunks = chunks});
  for (const char* recompute : {"selective", "full"})
    expect_same({.recipe = "delayed", .recompute = recompute, .capacity = 0.3, .chunks = 0});
  for (const char* recipe : {"none", "delayed"}) {
    expect_same({.recipe = recipe, .routing = "routing: zipf, skew: 60", .capacity = 4, .chunks = 0});
    expect_same({.recipe = recipe,
                 .dense_layers = 1,
                 .dispatch = recipe == std::string("none") ? "auto" : "bf16",
                 .chunks = 3});
  }
}

/// Dispatch and combine are timed on devices, of several ranks: rows in the compute type, in FP8, and cast where they
/// arrive.
TEST(PushedRows, AreTimed) {
  if (!tensor::kDevice || test::world_size() == 1) GTEST_SKIP() << "rows are not pushed between ranks";
  for (const char* recipe : {"none", "delayed", "block"}) {
    SCOPED_TRACE(recipe);
    deck::Config config = deck_of({.recipe = recipe, .chunks = 0});
    for (const auto exchange : {profile::Exchange::dispatch, profile::Exchange::combine})
      config.overlap.methods[exchange] = profile::ExchangeMethod::automatic;
    const auto rows = train::auto_rows(config);
    ASSERT_EQ(rows.size(), recipe == std::string("block") ? 1U : 2U) << "with block rows are cast once all have come";
    EXPECT_EQ(rows.back().exchange, profile::Exchange::combine);
    test::Training training(config, MPI_COMM_WORLD, {.pushes = true});
    const comm::Mesh& mesh = training.mesh();
    const auto measured = train::time_auto(config, mesh, training.exec(), 1, 0.2);
    ASSERT_EQ(measured.size(), rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(measured[i].exchange, rows[i].exchange);
    const auto choice = train::choose_overlap(mesh.world, measured);
    for (const auto& row : choice.rows) EXPECT_TRUE(row.plain_s > 0 && row.method_s > 0) << name_of(row.exchange);
  }
}

TEST(PushedRows, SomeLayersWithoutExpertsOrFp8) {
  for (const auto& [recipe, format] : kRecipes) expect_same({.recipe = recipe, .format = format, .dense_layers = 1});
}

}  // namespace
}  // namespace shard8
