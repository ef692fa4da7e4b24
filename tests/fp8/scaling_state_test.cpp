// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "fp8/scaling_state.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <set>

#include "tests/fp8/delayed_model.hpp"
#include "tests/fp8/state.hpp"

// Compares the scaling state with a plain double-precision model of the formulas, bit for bit. Amaxes differ on every
// rank, come in several pieces a step, and are sometimes zero, infinite or NaN.

namespace shard8 {
namespace {

using fp8::Role;
using fp8::Site;
using tests::DelayedModel;
using tests::sites;
using tests::State;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Setting {
  int margin;
  std::int64_t history;
  deck::AmaxAlgo algo;
};

/// The amax that a rank sees of a matrix in one piece of a step. Special values are seen by one rank only.
float value(const Site& site, int step, int piece, int rank, int ranks) {
  const int key = static_cast<int>(site.role) + 3 * static_cast<int>(site.linear) + 12 * site.layer;
  std::mt19937 engine(static_cast<unsigned>(key + 100 * (step + 50 * (piece + 3 * rank))));
  std::lognormal_distribution<float> draw(0.0f, 2.0f);
  const float usual = draw(engine);
  const bool here = rank == step % ranks;
  switch ((step + key) % 11) {
    case 3:
      return 0.0f;
    case 5:
      return here && piece == 1 ? std::numeric_limits<float>::quiet_NaN() : usual;
    case 6:
      return here ? -kInfinity : usual;
    case 8:
      return 1e-44f;  // subnormal: the scale would be infinite
    default:
      return -usual;
  }
}

void run_delayed(const Setting& setting) {
  fp8::Recipe recipe = tests::recipe_of(deck::Recipe::delayed);
  recipe.margin = setting.margin;
  recipe.amax_history = setting.history;
  recipe.amax_algo = setting.algo;
  State s(recipe);
  const int ranks = s.world.size();
  std::vector<DelayedModel> models;
  for (const Site& site : sites())
    models.emplace_back(site.role == Role::output_gradient ? 57344.0 : 448.0, setting.margin,
                        static_cast<std::size_t>(setting.history), setting.algo == deck::AmaxAlgo::most_recent);
  // The amaxes of the initial weights.
  for (std::size_t i = 0; i < models.size(); ++i) {
    if (sites()[i].role != Role::weight) continue;
    s.see(sites()[i], 0.25f);
    models[i].see(0.25f);
    models[i].end_step();
  }
  s.state.begin_weight_history(s.executor);
  for (int step = 0; step < 30; ++step) {
    for (std::size_t i = 0; i < models.size(); ++i) {
      const Site site = sites()[i];
      EXPECT_EQ(s.state.scaled_by_own_amax(site), step == 0 && site.role != Role::weight);
      ASSERT_EQ(std::bit_cast<std::uint32_t>(s.scale(site)), std::bit_cast<std::uint32_t>(models[i].scale()))
          << fp8::name_of(site.linear, site.role) << " of layer " << site.layer << " in step " << step << ": "
          << s.scale(site) << ", not " << models[i].scale();
      for (int piece = 0; piece < 3; ++piece) {
        s.see(site, value(site, step, piece, s.world.rank(), ranks));
        for (int rank = 0; rank < ranks; ++rank) models[i].see(value(site, step, piece, rank, ranks));
      }
      // Scales do not change within a step.
      EXPECT_EQ(s.scale(site), models[i].scale());
    }
    s.end_step();
    for (auto& model : models) model.end_step();
  }
}

TEST(Delayed, FollowsTheFormulas) {
  for (const Setting& setting : {Setting{0, 5, deck::AmaxAlgo::max},
                                 {2, 1, deck::AmaxAlgo::max},
                                 {-3, 64, deck::AmaxAlgo::max},
                                 {0, 5, deck::AmaxAlgo::most_recent}}) {
    SCOPED_TRACE(setting.history);
    run_delayed(setting);
  }
}

TEST(Delayed, OneReductionServesEverything) {
  State s(tests::recipe_of(deck::Recipe::delayed));
  s.end_step();
  if (s.world.size() == 1) return;
  ASSERT_EQ(s.log.entries().size(), 1U);
  const auto& [key, stats] = *s.log.entries().begin();
  EXPECT_EQ(stats.calls, 1U);
  EXPECT_EQ(key.bytes, sites().size() * 4);
  EXPECT_EQ(key.dtype, "i32");
}

TEST(Delayed, FirstScaleIsThatOfTheTensorItself) {
  State s(tests::recipe_of(deck::Recipe::delayed));
  const Site site{1, fp8::Linear::fc1, Role::input};
  s.see(site, -7.0f);
  s.state.scale_of(s.executor, site);
  EXPECT_EQ(s.scale(site), 64.0f);
  EXPECT_EQ(*s.state.amax(site).as<std::int32_t>(), std::bit_cast<std::int32_t>(7.0f)) << "kept for the history";
  s.end_step();
  EXPECT_EQ(s.scale(site), 64.0f);
}

TEST(Current, ScaleOfWhatWasSeenLast) {
  State s(tests::recipe_of(deck::Recipe::current));
  const Site site{0, fp8::Linear::qkv, Role::output_gradient};
  const auto scale_after = [&](float x) {
    s.see(site, x);
    s.state.scale_of(s.executor, site);
    return s.scale(site);
  };
  EXPECT_EQ(scale_after(57344.0f), 1.0f);
  EXPECT_EQ(scale_after(-28672.0f), 2.0f) << "the amax before is forgotten";
  EXPECT_EQ(scale_after(0.0f), 1.0f);
  EXPECT_EQ(scale_after(kInfinity), 1.0f);
  EXPECT_EQ(scale_after(std::numeric_limits<float>::quiet_NaN()), 1.0f);
  EXPECT_EQ(scale_after(1e-45f), FLT_MAX);
  s.see(site, 3.0f);
  s.end_step();  // changes nothing: current scaling has no history
  s.state.scale_of(s.executor, site);
  EXPECT_EQ(s.scale(site), 57344.0f / 3.0f);
}

/// Two layers in FP8, of which the second one has three experts.
fp8::Recipe recipe_of_experts(deck::Recipe kind) {
  fp8::Recipe recipe = tests::recipe_of(kind);
  recipe.experts = 3;
  recipe.dense_layers = 1;
  return recipe;
}

TEST(Experts, EachWeightHasAScale) {
  for (const auto kind : {deck::Recipe::delayed, deck::Recipe::current}) {
    State s(recipe_of_experts(kind));
    EXPECT_EQ(s.state.weight_amaxes().count(), 8 + 2 * 3);
    EXPECT_EQ(s.state.matrices(Role::input), 8);
    std::vector<Site> weights;
    for (const auto linear : {fp8::Linear::fc1, fp8::Linear::fc2})
      for (std::int64_t e = 0; e < 3; ++e) weights.push_back(Site{1, linear}.of_expert(e));
    for (std::size_t i = 0; i < weights.size(); ++i) s.see(weights[i], static_cast<float>(1 << i));
    s.see({1, fp8::Linear::fc2, Role::input}, 448.0f);
    const tensor::Tensor amaxes = s.state.weight_amaxes();
    s.world.all_reduce({&amaxes, 1}, comm::Communicator::Reduce::max).wait();
    if (kind == deck::Recipe::delayed)
      s.state.begin_weight_history(s.executor);
    else
      s.state.scales_of_weights(s.executor);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      EXPECT_EQ(s.state.index(weights[i]), 8 + static_cast<std::int64_t>(i));
      EXPECT_EQ(s.scale(weights[i]), 448.0f / static_cast<float>(1 << i));
    }
    EXPECT_EQ(s.scale({1, fp8::Linear::fc2, Role::weight}), 1.0f) << "of the linear without experts";
    s.state.invert_expert_scales(s.executor, weights[3]);
    const tensor::Tensor inverses = s.state.expert_scale_invs(weights[4]);
    ASSERT_EQ(inverses.count(), 3);
    for (int e = 0; e < 3; ++e) EXPECT_EQ(inverses.as<float>()[e], 1.0f / (448.0f / static_cast<float>(8 << e)));
    EXPECT_EQ(*s.state.weight_scale_inv(weights[0]).as<float>(), 1.0f) << "fc1 was not cast";
    EXPECT_EQ(s.state.weight_scale_inv(weights[5]).data, inverses.slice(2, 1).data);
    EXPECT_THROW((void)s.state.scale(Site{0, fp8::Linear::fc1}.of_expert(0)), base::Error) << "a layer without experts";
    EXPECT_THROW((void)s.state.scale(Site{1, fp8::Linear::qkv}.of_expert(0)), base::Error);
    EXPECT_THROW((void)s.state.scale(Site{1, fp8::Linear::fc1}.of_expert(3)), base::Error);
  }
}

TEST(Experts, HistoriesFollowEachOther) {
  State s(recipe_of_experts(deck::Recipe::delayed));
  const Site of_expert = Site{1, fp8::Linear::fc2}.of_expert(2), behind{0, fp8::Linear::qkv, Role::output_gradient};
  for (int step = 0; step < 12; ++step) {
    s.see(of_expert, step == 3 ? 4.0f : 2.0f);
    s.see(behind, 8.0f);
    s.end_step();
    EXPECT_EQ(s.scale(of_expert), 448.0f / (step >= 3 && step < 8 ? 4.0f : 2.0f)) << "step " << step;
    EXPECT_EQ(s.scale(behind), 57344.0f / 8.0f);
  }
  EXPECT_EQ(s.state.history().count(), 5 * (8 + 14 + 8));
  for (const auto& row : s.state.figures(s.exec))
    EXPECT_EQ(row.scale_change, row.tensor == "fc2 weight" ? 2.0 : 1.0) << row.tensor;
}

TEST(Current, LargestChangeIsReported) {
  State s(tests::recipe_of(deck::Recipe::current));
  const Site site{0, fp8::Linear::fc2, Role::input};
  for (const float x : {1.0f, 4.0f, 2.0f, 1.0f}) {
    s.see(site, x);
    s.state.scale_of(s.executor, site);
  }
  for (const auto& row : s.state.figures(s.exec))
    EXPECT_EQ(row.scale_change, row.tensor == "fc2 input" ? 4.0 : 0.0) << row.tensor;
}

TEST(Storage, NoTwoTensorsShareAScale) {
  for (const auto kind : {deck::Recipe::delayed, deck::Recipe::current}) {
    State s(tests::recipe_of(kind));
    std::set<const std::byte*> places;
    std::size_t count = 0;
    for (const Site& site : sites()) {
      for (const auto& t : {s.state.amax(site), s.state.scale(site)}) {
        EXPECT_EQ(t.count(), 1);
        places.insert(t.data);
        ++count;
      }
      if (site.role != Role::weight) continue;
      places.insert(s.state.weight_scale_inv(site).data);
      ++count;
    }
    EXPECT_EQ(places.size(), count);
  }
}

TEST(Storage, BlockRecipesHaveNoScalesOfMatrices) {
  State s(tests::recipe_of(deck::Recipe::block));
  EXPECT_THROW((void)s.state.scale({0, fp8::Linear::qkv, Role::input}), base::Error);
  EXPECT_FALSE(s.state.scaled_by_own_amax({0, fp8::Linear::qkv, Role::input}));
  EXPECT_EQ(s.state.figures(s.exec).size(), 12U);
}

}  // namespace
}  // namespace shard8
