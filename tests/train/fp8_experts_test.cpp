// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tensor/transfer.hpp"
#include "tests/train/decks.hpp"
#include "tests/train/training.hpp"
#include "train/plan/plan.hpp"

// Trainings of layers with experts in FP8: what must not change a bit, what changes little, and the plan. Sizes can be
// cut into the blocks of every recipe.

namespace shard8 {
namespace {

using test::Curve;
using test::expect_same;

constexpr int kSteps = 3;

/// Sequences of a step: at least two micro-batches on one rank, and on two.
int batch() { return test::world_size() == 1 ? 2 : 4; }

struct Variant {
  std::array<int, 3> mesh = {1, 1, 1};
  int expert = 1;
  const char* recipe = "current";
  const char* format = "auto";
  const char* recompute = "none";
  double capacity = 2;
  const char* routing = "routing: learned";
  const char* weights = "fp8";
  const char* gather = "auto";
  const char* fp8 = "";  ///< further keys of the group
  int dense_layers = 0;
  const char* dispatch = "auto";
};

std::string name_of(const Variant& v) {
  return fmt::format(
      "{} {}, mesh {}x{}x{} expert {}, recompute {}, capacity {}, {}, weights {}, gather {}{}, dense {}, dispatch {}",
      v.recipe, v.format, v.mesh[0], v.mesh[1], v.mesh[2], v.expert, v.recompute, v.capacity, v.routing, v.weights,
      v.gather, v.fp8, v.dense_layers, v.dispatch);
}

deck::Config deck_of(const Variant& v) {
  const std::string text =
      fmt::format(R"(
model: {{hidden: {}, ffn: 256, layers: 2, heads: 2, kv_heads: 2, vocab: 64, seq: 128, recompute: {}}}
moe: {{experts: 8, experts_per_token: 2, ffn: 128, balance: 0.01, capacity: {}, {}, dense_layers: {}, dispatch: {}}}
mesh: {{replicate: {}, shard: {}, tensor: {}, expert: {}}}
precision: {{compute: bf16}}
fp8: {{recipe: {}, format: {}, weights: {}{}}}
fsdp: {{gather: {}}}
optimizer: {{lr: 0.002, warmup: 2, decay_steps: 100}}
data: {{kind: synthetic, batch: {}, micro_batch: {}}}
run: {{steps: {}}}
)",
                  128 * v.mesh[2], v.recompute, v.capacity, v.routing, v.dense_layers, v.dispatch, v.mesh[0], v.mesh[1],
                  v.mesh[2], v.expert, v.recipe, v.format, v.weights, v.fp8, v.gather, batch(), v.mesh[2], kSteps);
  return deck::load_text(text, "experts.yaml").config;
}

Curve train(const Variant& v) { return test::train_curve(deck_of(v)); }

/// Trains one of variants(), or the same without FP8. Several tests compare with these curves, so each is trained once.
const Curve& plain_curve(const Variant& v) {
  static std::map<std::string, Curve> curves;
  const auto [found, is_new] = curves.try_emplace(name_of(v));
  if (is_new) found->second = train(v);
  return found->second;
}

constexpr std::pair<const char*, const char*> kRecipes[] = {
    {"delayed", "auto"}, {"current", "auto"}, {"block", "auto"}, {"block", "hybrid"}, {"mxfp8", "auto"}};

/// The meshes for as many ranks as there are. One rank has every recipe; of N ranks each N-th pair of a mesh and a
/// recipe is trained, so that each mesh and each recipe is.
std::vector<Variant> variants() {
  const std::pair<std::array<int, 3>, int> meshes[] = {{{1, 1, 1}, 1}, {{1, 2, 1}, 1}, {{1, 2, 1}, 2}, {{1, 1, 2}, 2},
                                                       {{1, 2, 2}, 2}, {{1, 4, 1}, 2}, {{2, 1, 2}, 1}, {{1, 2, 2}, 4}};
  std::vector<Variant> all;
  int number = 0;
  for (const auto& [mesh, expert] : meshes)
    for (const auto& [recipe, format] : kRecipes)
      if (mesh[0] * mesh[1] * mesh[2] == test::world_size() && number++ % test::world_size() == 0)
        all.push_back({.mesh = mesh, .expert = expert, .recipe = recipe, .format = format});
  // The recipes that cast before rows are sent also cast after it.
  for (const char* recipe : {"delayed", "current"}) {
    Variant v = all.front();
    for (const Variant& other : all)
      if (other.expert > 1) v = other;
    v.recipe = recipe;
    v.format = "auto";
    v.dispatch = "bf16";
    all.push_back(v);
  }
  return all;
}

/// Masters are equal on every mesh at first, so are bytes, scales, and amaxes of weights.
TEST(Fp8Experts, InitialWeightsAreEqualOnEveryMesh) {
  for (const Variant& v : variants()) {
    SCOPED_TRACE(name_of(v));
    const deck::Config config = deck_of(v);
    deck::Config one = config;
    one.mesh = {};
    test::Training here(config, MPI_COMM_WORLD), alone(one, MPI_COMM_SELF);
    const auto got = test::hashes_of(here), want = test::hashes_of(alone);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], want[i]);
  }
}

/// A rank has one scale for each expert that it holds.
TEST(Fp8Experts, EachExpertHasAScale) {
  for (const Variant& v : variants()) {
    test::Training training(deck_of(v), MPI_COMM_WORLD);
    const auto& setup = training.setup();
    if (!setup.weights.recipe.per_tensor()) continue;
    SCOPED_TRACE(name_of(v));
    training.run(0, 2);
    std::set<float> scales;
    for (std::size_t u = 0; u < setup.units.size(); ++u) {
      for (const auto& w : training.trainer().state().units.weights(static_cast<int>(u))) {
        if (!setup.units[u].parameters.front().of_experts) continue;
        ASSERT_EQ(w.scale_inv.count(), 8 / v.expert);
        for (const float scale : tensor::to_host<float>(training.exec(), w.scale_inv)) scales.insert(scale);
      }
    }
    EXPECT_GT(scales.size(), std::size_t{8} / static_cast<std::size_t>(v.expert));
  }
}

/// Σ (x·scale_inv)² of a matrix with one scale or with scales of blocks.
double squares_of(const tensor::Exec& exec, const tensor::Operand& x) {
  const auto codes = tensor::to_host<tensor::E4M3>(exec, x.data);
  std::vector<float> scales;
  if (x.scale_inv.dtype == tensor::DType::fp32) scales = tensor::to_host<float>(exec, x.scale_inv);
  if (x.scale_inv.dtype == tensor::DType::e8m0)
    for (const auto scale : tensor::to_host<tensor::E8M0>(exec, x.scale_inv))
      scales.push_back(static_cast<float>(scale));
  const bool whole = x.scaling == tensor::Scaling::tensor;
  const std::int64_t rows = tensor::block_rows(x.scaling), cols = tensor::block_cols(x.scaling);
  double sum = 0;
  for (std::int64_t i = 0; i < x.data.count(); ++i) {
    const std::int64_t row = i / x.cols(), col = i % x.cols();
    const std::int64_t scale = whole ? 0 : row / rows * (x.cols() / cols) + col / cols;
    const auto value = static_cast<double>(static_cast<float>(codes[static_cast<std::size_t>(i)]));
    sum += std::pow(value * static_cast<double>(scales[static_cast<std::size_t>(scale)]), 2);
  }
  return sum;
}

/// The norms of a step's weights are those of the bytes and scales with which it began, each expert's with its own.
TEST(Fp8Experts, WeightNormsAreThoseOfTheStoredBytes) {
  for (const Variant& v : variants()) {
    SCOPED_TRACE(name_of(v));
    test::Training training(deck_of(v), MPI_COMM_WORLD);
    const auto& units = training.trainer().state().units;
    training.run(0, 1);
    training.trainer().settle();
    std::vector<double> squares(units.units().size());
    for (std::size_t u = 0; u < squares.size(); ++u) {
      const auto& weights = units.weights(static_cast<int>(u));
      for (std::size_t p = 0; p < weights.size(); ++p) {
        const fsdp::Copies& stored = weights[p].stored;
        if (stored.empty() || !units.counts(static_cast<int>(u), p)) continue;
        for (const fsdp::GroupRows& part : weights[p].groups) {
          const auto add = [&](const tensor::Operand& copy) {
            squares[u] += squares_of(training.exec(), fsdp::WeightForms::part_of(copy, part));
          };
          if (!stored.forward.empty()) add(stored.forward);
          if (stored.forward.empty() || stored.two()) add(stored.backward);
        }
      }
    }
    training.mesh().group(base::AxisSet::model).all_reduce(squares, comm::Communicator::Reduce::sum);
    training.run(1, 1);
    const auto norms = training.trainer().weight_norms();
    ASSERT_EQ(norms.size(), squares.size());
    double experts = 0;
    for (std::size_t u = 0; u < squares.size(); ++u) {
      EXPECT_NEAR(norms[u], std::sqrt(squares[u]), (tensor::kDevice ? 1e-6 : 1e-12) * norms[u]) << "unit " << u;
      const auto& parameters = training.setup().units[u].parameters;
      if (!parameters.empty() && parameters.front().of_experts) experts += norms[u];
    }
    EXPECT_GT(experts, 0);
  }
}

/// Widths that layers in BF16 alone have need not be multiples of a block.
TEST(Fp8Experts, WidthsOfLayersInBf16AreFree) {
  struct Case {
    const char *ffn, *moe_ffn, *dense_layers, *first, *last;
  };
  const auto curve = [](const Case& c, const std::string& recipe) {
    std::vector<std::string> overrides{std::string("model.ffn=") + c.ffn,
                                       std::string("moe.ffn=") + c.moe_ffn,
                                       std::string("moe.dense_layers=") + c.dense_layers,
                                       "fp8.recipe=" + recipe,
                                       fmt::format("mesh.shard={}", test::world_size()),
                                       fmt::format("mesh.expert={}", test::world_size())};
    if (recipe != "none") {
      overrides.push_back(std::string("fp8.first_layers_bf16=") + c.first);
      overrides.push_back(std::string("fp8.last_layers_bf16=") + c.last);
    }
    return test::train_curve(deck::load_text(R"(
model: {hidden: 128, layers: 3, heads: 1, vocab: 64, seq: 128}
moe: {experts: 4}
optimizer: {lr: 0.002}
data: {kind: synthetic, batch: 4, micro_batch: 1}
run: {steps: 3}
)",
                                             "free.yaml", overrides)
                                 .config);
  };
  for (const Case& c : {Case{"128", "24", "2", "0", "1"}, Case{"250", "128", "1", "1", "0"}}) {
    const Curve plain = curve(c, "none");
    for (const std::string recipe : {"delayed", "current", "block", "mxfp8"}) {
      SCOPED_TRACE(recipe + " " + c.ffn);
      const Curve got = curve(c, recipe);
      EXPECT_NE(got.losses, plain.losses);
      for (std::size_t s = 0; s < plain.losses.size(); ++s)
        EXPECT_NEAR(got.losses[s], plain.losses[s], 1e-2 * plain.losses[s]);
    }
  }
}

/// Nor does it matter that further rounds are always recomputed. One rank trains with both kinds of recomputation,
/// several ranks with the next kind for each next variant.
TEST(Fp8Experts, RecomputingChangesNone) {
  bool skewed = false;
  std::size_t number = 0;
  for (Variant v : variants()) {
    v.capacity = 1;
    v.routing = std::exchange(skewed, !skewed) ? "routing: zipf, skew: 3" : "routing: learned";
    const Curve kept = train(v);
    EXPECT_NE(kept.losses.front(), kept.losses.back());
    const std::size_t turn = number++ / 2 % 2;  // not in step with the routing
    for (const std::size_t kind : {turn, 1 - turn}) {
      if (kind != turn && test::world_size() > 1) continue;
      v.recompute = kind == 0 ? "selective" : "full";
      SCOPED_TRACE(name_of(v));
      expect_same(train(v), kept);
    }
  }
}

/// With scales that do not depend on when a weight is cast, it does not matter where the weight is cast.
TEST(Fp8Experts, WhereWeightsAreCastChangesNone) {
  for (const Variant& v : variants()) {
    if (v.recipe == std::string("delayed")) continue;
    const Curve& primary = plain_curve(v);
    for (const char* gather : {"fp8", "bf16"}) {
      Variant other = v;
      other.weights = "bf16";
      other.gather = gather;
      SCOPED_TRACE(name_of(other));
      expect_same(train(other), primary);
    }
  }
}

/// Rounds cut the rows between blocks, so with block scales the first loss has the same bits in any number of rounds.
/// Gradients are added in another order.
TEST(Fp8Experts, RoundsChangeLittle) {
  bool skewed = true;
  for (Variant v : variants()) {
    v.routing = std::exchange(skewed, !skewed) ? "routing: zipf, skew: 60" : "routing: learned";
    v.capacity = 64;
    const Curve one = train(v);
    v.capacity = 1;
    SCOPED_TRACE(name_of(v));
    const Curve several = train(v);
    const std::string recipe = v.recipe;
    if (recipe == "block" || recipe == "mxfp8") {
      EXPECT_EQ(several.losses.front(), one.losses.front());
    }
    for (std::size_t s = 0; s < one.losses.size(); ++s) {
      EXPECT_TRUE(std::isfinite(one.losses[s]) && std::isfinite(one.norms[s]));
      EXPECT_NEAR(several.losses[s], one.losses[s], 5e-3 * one.losses[s]) << "step " << s;
    }
  }
}

/// A rank without rows in a round keeps the scales of its matrices.
TEST(Fp8Experts, RoundsWithoutRowsChangeNoScale) {
  for (Variant v : variants()) {
    if (v.recipe != std::string("current") || v.expert == 1) continue;
    v.routing = "routing: zipf, skew: 60";
    v.capacity = 1;
    SCOPED_TRACE(name_of(v));
    test::Training training(deck_of(v), MPI_COMM_WORLD);
    training.run(0, kSteps);
    for (const auto& cast : training.trainer().state().scaling.figures(training.exec()))
      if (cast.tensor.starts_with("fc") && !cast.tensor.ends_with("weight")) {
        EXPECT_LT(cast.scale_change, 100) << cast.tensor;
      }
  }
}

TEST(Fp8Experts, TrainNearlyAsWithoutFp8) {
  for (const Variant& v : variants()) {
    SCOPED_TRACE(name_of(v));
    Variant plain = v;
    plain.recipe = "none";
    plain.format = plain.dispatch = "auto";
    const Curve &in_fp8 = plain_curve(v), &none = plain_curve(plain);
    EXPECT_NE(in_fp8.losses.front(), none.losses.front());
    for (std::size_t s = 0; s < none.losses.size(); ++s)
      EXPECT_NEAR(in_fp8.losses[s], none.losses[s], 0.02 * none.losses[s]) << "step " << s;
  }
}

TEST(Fp8Experts, FirstAndLastLayersStayOut) {
  int number = 0;
  for (Variant v : variants()) {
    const Curve& all = plain_curve(v);
    v.fp8 = number % 2 == 0 ? ", first_layers_bf16: 1" : ", last_layers_bf16: 1";
    v.dense_layers = number % 4 / 2;
    v.capacity = 1;
    ++number;
    const Curve one = train(v);
    EXPECT_NE(one.losses.back(), all.losses.back());
    v.recompute = "full";
    SCOPED_TRACE(name_of(v));
    expect_same(train(v), one);
  }
}

TEST(Fp8Experts, MemoryIsThatOfThePlan) {
  std::size_t number = 0;
  for (Variant v : variants()) {
    for (const char* recompute : {"none", "selective", "full"}) {
      v.recompute = recompute;
      v.capacity = number % 2 == 0 ? 1 : 2;
      v.routing = number % 3 == 0 ? "routing: zipf, skew: 60" : "routing: learned";
      v.weights = number % 4 == 3 ? "bf16" : "fp8";
      v.fp8 = number % 5 == 2 ? ", first_layers_bf16: 1" : "";
      v.dense_layers = number % 7 == 4 ? 1 : 0;
      ++number;
      SCOPED_TRACE(name_of(v));
      test::Training training(deck_of(v), MPI_COMM_WORLD);
      training.run(0, 2);  // the second begins with what the first one gathered
      test::expect_planned_memory(training);
    }
  }
}

}  // namespace
}  // namespace shard8
