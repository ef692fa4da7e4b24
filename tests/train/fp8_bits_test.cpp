// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "tests/train/decks.hpp"
#include "tests/train/training.hpp"
#include "train/plan/plan.hpp"

// Settings that must not change a bit of a training in FP8; the plan of such a training compared with the training; and
// that no two tensors share memory for scales.

namespace shard8 {
namespace {

using test::Curve;
using test::expect_same;
using test::Fp8Variant;

constexpr int kSteps = 3, kLayers = 3, kBatch = 4;

Curve train(const Fp8Variant& v, const std::string& fp8 = "", const std::string& extra = "") {
  return test::train_curve(test::fp8_deck(v, kSteps, kLayers, kBatch, fp8, extra));
}

constexpr std::pair<const char*, const char*> kRecipes[] = {
    {"delayed", "auto"}, {"current", "auto"}, {"block", "auto"}, {"block", "hybrid"}, {"mxfp8", "auto"}};

/// Every recipe and format on each mesh for as many ranks as there are. Three ranks are shards; four are two shards of
/// two tensor ranks.
std::vector<Fp8Variant> variants() {
  const std::array<int, 3> meshes[] = {{1, 1, 1}, {1, 2, 1}, {1, 1, 2}, {1, 3, 1}, {1, 2, 2}};
  std::vector<Fp8Variant> all;
  for (const auto& mesh : meshes)
    for (const auto& [recipe, format] : kRecipes)
      if (Fp8Variant v{.mesh = mesh, .recipe = recipe, .micro_batch = 2, .format = format};
          ranks_of(v) == test::world_size())
        all.push_back(v);
  return all;
}

/// Trains one of variants(), or the same without FP8. Several tests compare with these curves, so each is trained once.
const Curve& plain_curve(const Fp8Variant& v) {
  static std::map<std::string, Curve> curves;
  const auto [found, is_new] = curves.try_emplace(name_of(v));
  if (is_new) found->second = train(v);
  return found->second;
}

/// Which of several settings one of variants() trains with: the next variant with the next one, beginning with another
/// one for other numbers of ranks. Two ranks have two meshes and an odd number of recipes, so that there each recipe
/// trains with either of two settings.
std::size_t turn(std::size_t number) { return number + static_cast<std::size_t>(test::world_size()); }

// Of several settings each recipe trains with two, the next recipe with the next two.
TEST(Fp8Bits, OverlapChangesNone) {
  const std::pair<const char*, const char*> settings[] = {{test::kOverlaps[0], "selective"},
                                                          {test::kOverlaps[1], "full"},
                                                          {test::kOverlaps[2], "none"},
                                                          {test::kRing, "selective"}};
  std::size_t number = 0;
  for (const Fp8Variant& v : variants()) {
    if (v.mesh[2] == 1) continue;
    const Curve& plain = plain_curve(v);
    EXPECT_NE(plain.losses.front(), plain.losses.back());
    for (int k = 0; k < 2; ++k) {
      const auto& [overlap, recompute] = settings[number++ % std::size(settings)];
      if (tensor::kDevice && overlap == test::kRing) continue;
      Fp8Variant beside = v;
      beside.recompute = recompute;
      beside.overlap = overlap;
      SCOPED_TRACE(name_of(beside) + overlap);
      expect_same(train(beside), plain);
    }
  }
}

// With more than one micro-batch, so that amaxes of several micro-batches are combined.
TEST(Fp8Bits, RecomputingChangesNone) {
  const std::tuple<const char*, bool, int> settings[] = {
      {"selective", true, 1}, {"full", true, 0}, {"full", false, 1}, {"none", true, 2}};
  std::size_t number = 0;
  for (const Fp8Variant& v : variants()) {
    const Curve& kept = plain_curve(v);
    EXPECT_NE(kept.losses.front(), kept.losses.back());
    for (int k = 0; k < 2; ++k) {
      const auto& [recompute, reshard, prefetch] = settings[number++ % std::size(settings)];
      Fp8Variant again = v;
      again.recompute = recompute;
      again.reshard = reshard;
      again.prefetch = prefetch;
      SCOPED_TRACE(name_of(again));
      expect_same(train(again), kept);
    }
  }
}

// With scales that do not depend on when a weight is cast, it does not matter where the weight is cast.
TEST(Fp8Bits, WhereWeightsAreCastChangesNone) {
  for (const Fp8Variant& v : variants()) {
    if (v.recipe == std::string("delayed")) continue;
    const Curve& primary = plain_curve(v);
    for (const char* gather : {"fp8", "bf16"}) {
      Fp8Variant other = v;
      other.weights = "bf16";
      other.gather = gather;
      SCOPED_TRACE(name_of(other));
      expect_same(train(other), primary);
    }
  }
}

TEST(Fp8Bits, FirstAndLastLayersStayOut) {
  std::size_t number = 0;
  for (const Fp8Variant& v : variants()) {
    SCOPED_TRACE(name_of(v));
    Fp8Variant plain = v;
    plain.recipe = "none";
    plain.format = "auto";
    const Curve &all = plain_curve(v), &none = plain_curve(plain);
    const auto [fp8, expected] = number++ % 2 == 0 ? std::pair{", first_layers_bf16: 2", std::array{false, false, true}}
                                                   : std::pair{", last_layers_bf16: 2", std::array{true, false, false}};
    test::Training training(test::fp8_deck(v, kSteps, kLayers, kBatch, fp8), MPI_COMM_WORLD);
    const double last = training.run(0, kSteps).back().loss;
    EXPECT_NE(last, all.losses.back());
    EXPECT_NE(last, none.losses.back());
    EXPECT_NEAR(last, none.losses.back(), 0.02 * none.losses.back());
    const auto& setup = training.setup();
    for (int l = 0; l < kLayers; ++l) {
      const auto& unit = setup.units[static_cast<std::size_t>(model::layer_unit(l))];
      int in_fp8 = 0;
      for (const auto& p : unit.parameters) in_fp8 += setup.weights.site(unit, p).on() ? 1 : 0;
      EXPECT_EQ(in_fp8, expected[static_cast<std::size_t>(l)] ? 4 : 0) << "layer " << l;
      const auto& saved = training.trainer().state().activations.layers[static_cast<std::size_t>(l)];
      EXPECT_EQ(saved.mlp.fc2.copies.columnwise.data.dtype == tensor::DType::e4m3,
                expected[static_cast<std::size_t>(l)]);
    }
  }
}

/// Blocks are the same on every mesh, so every mesh casts the same numbers. Losses differ by the order of sums alone,
/// which the casts make larger.
TEST(Fp8Bits, BlocksTrainAlikeOnEveryMesh) {
  for (const Fp8Variant& v : variants()) {
    if (v.recipe != std::string("block") || test::world_size() == 1) continue;
    SCOPED_TRACE(name_of(v));
    const deck::Config config = test::fp8_deck(v, kSteps, kLayers, kBatch);
    deck::Config one = config;
    one.mesh = {};
    const auto here = test::Training(config, MPI_COMM_WORLD).run(0, kSteps),
               alone = test::Training(one, MPI_COMM_SELF).run(0, kSteps);
    for (std::size_t s = 0; s < here.size(); ++s)
      EXPECT_NEAR(here[s].loss, alone[s].loss, 1e-3 * alone[s].loss) << "step " << s;
  }
}

/// The two kinds of masters round ties of BF16 differently and are otherwise equal, so losses differ little. Moments in
/// BF16 change them more.
TEST(Fp8Bits, MastersInTwoHalvesAndMomentsInBf16TrainNearly) {
  std::size_t number = 0;
  for (const Fp8Variant& v : variants()) {
    const bool moments = turn(number++) % 2 == 0;
    SCOPED_TRACE(name_of(v) + (moments ? ", moments in BF16" : ""));
    const Curve& wide = plain_curve(v);
    const Curve narrow = train(v, "", moments ? ", moments: bf16, master: bf16_remainder" : ", master: bf16_remainder");
    if (moments) {
      EXPECT_NE(narrow.losses.back(), wide.losses.back());
    }
    for (std::size_t s = 0; s < wide.losses.size(); ++s)
      EXPECT_NEAR(narrow.losses[s], wide.losses[s], (moments ? 1e-2 : 2e-3) * wide.losses[s]) << "step " << s;
  }
}

TEST(Fp8Plan, IsWhatARunDid) {
  std::size_t number = 0;
  for (Fp8Variant v : variants()) {
    for (const char* recompute : {"none", "selective", "full"}) {
      v.recompute = recompute;
      v.reshard = number % 3 != 0;
      v.prefetch = static_cast<int>(number % 4);
      v.micro_batch = number % 2 == 0 ? v.mesh[2] : 4;  // at least 128 tokens on a tensor rank
      v.weights = number % 5 == 4 ? "bf16" : "fp8";
      v.gather = number % 10 == 4 ? "bf16" : "auto";
      v.arch = number % 2 == 0 ? "gpt2" : "llama";
      v.overlap = v.mesh[2] > 1 ? test::kOverlaps[number % std::size(test::kOverlaps)] : "";
      ++number;
      const std::string outer = number % 4 == 0 ? ", first_layers_bf16: 1" : "";
      const std::string optimizer = std::string(number % 4 == 1 ? ", moments: bf16, master: bf16_remainder" : "") +
                                    (number % 3 == 1 ? ", clip: 0" : "");
      SCOPED_TRACE(name_of(v) + outer + optimizer + v.overlap);
      test::Training training(test::fp8_deck(v, kSteps, kLayers, kBatch, outer, optimizer), MPI_COMM_WORLD);
      test::expect_listed_operations(training);
      test::expect_planned_traffic(training, kSteps - 1);
      test::expect_planned_memory(training);
    }
  }
}

/// The kept inputs of linears in the plan are half as large as in BF16, apart from scales. The memory of activations
/// differs by as much, less attention's results, which are kept in addition to their casts.
TEST(Fp8Plan, KeepsHalfOfTheLinearsInputs) {
  for (const Fp8Variant& v : variants()) {
    SCOPED_TRACE(name_of(v));
    Fp8Variant plain = v;
    plain.recipe = "none";
    plain.format = "auto";
    const auto cast = train::make_plan(test::fp8_deck(v, kSteps, kLayers, kBatch), 1);
    const auto whole = train::make_plan(test::fp8_deck(plain, kSteps, kLayers, kBatch), 1);
    const auto elements = whole.kept.linear_inputs / 2;
    const std::string recipe = v.recipe;
    const auto scales = recipe == "block" ? elements / 128 * 4 : recipe == "mxfp8" ? elements / 32 : 4U * 4 * kLayers;
    EXPECT_EQ(cast.kept.linear_inputs, elements + scales);
    EXPECT_EQ(whole.kept.attention_results, 0U);
    const auto kind = static_cast<std::size_t>(tensor::MemoryKind::activations);
    const auto kept = cast.kept.linear_inputs + cast.kept.attention_results;
    EXPECT_NEAR(static_cast<double>(whole.memory[kind] - cast.memory[kind]),
                static_cast<double>(whole.kept.linear_inputs - kept), 256.0 * 8 * kLayers);
    const std::string text = train::to_text(cast, test::fp8_deck(v, kSteps, kLayers, kBatch));
    EXPECT_NE(text.find(fmt::format("inputs of linears{:>21}", cast.kept.linear_inputs)), std::string::npos) << text;
  }
}

/// No two of these overlap: the scales of kept inputs, of stored weights, and of weights in gather buffers.
TEST(Fp8Storage, NoTwoTensorsShareScales) {
  for (const Fp8Variant& v : variants()) {
    SCOPED_TRACE(name_of(v));
    test::Training training(test::fp8_deck(v, kSteps, kLayers, kBatch), MPI_COMM_WORLD);
    const auto& state = training.trainer().state();
    std::vector<std::pair<const std::byte*, const std::byte*>> places;
    const auto put = [&](const tensor::Tensor& t) {
      ASSERT_NE(t.data, nullptr);
      places.emplace_back(t.data, t.data + t.bytes());
    };
    for (const auto& layer : state.activations.layers)
      for (const auto* input :
           {&layer.attention.qkv.input, &layer.attention.proj, &layer.mlp.fc1.input, &layer.mlp.fc2})
        put(input->copies.columnwise.scale_inv);
    for (int u = 0; u < static_cast<int>(state.units.units().size()); ++u)
      for (const auto& weight : state.units.weights(u))
        weight.stored.for_each_tensor([&](const tensor::Tensor& t) {
          if (t.data != weight.stored.forward.data.data && t.data != weight.stored.backward.data.data) put(t);
        });
    const auto& gather = state.units.gather();
    for (int slot = 0; slot < gather.rotating_slots() && v.mesh[1] > 1;
         ++slot)  // with one shard they are the stored ones
      for (const auto& w : gather.place(slot, gather.copy_of(model::layer_unit(0), fsdp::Pass::forward)).read)
        if (w.forward.scaling != tensor::Scaling::none && w.forward.scaling != tensor::Scaling::tensor)
          put(w.forward.scale_inv);
    for (int layer = 0; training.setup().weights.recipe.per_tensor() && layer < kLayers; ++layer)
      for (int l = 0; l < fp8::kLinears; ++l)
        put(state.scaling.weight_scale_inv({layer, static_cast<fp8::Linear>(l), fp8::Role::weight}));
    EXPECT_GE(places.size(), std::size_t{8} * kLayers);
    std::sort(places.begin(), places.end());
    for (std::size_t i = 1; i < places.size(); ++i) EXPECT_LE(places[i - 1].second, places[i].first);
  }
}

}  // namespace
}  // namespace shard8
