// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "train/trainer.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "deck/load.hpp"
#include "fsdp/weight_store.hpp"
#include "model/transformer.hpp"
#include "train/state.hpp"

namespace shard8 {
namespace {

using train::UpdatePlan;

/// The settings that decide on the order of updates and on the early gathers.
struct Case {
  const char* arch = "llama";
  bool tied = false;
  int layers = 1, prefetch = 0;
  bool clips = false;
  int shards = 2, tensor = 1;
  const char* fp8 = "recipe: none";
  bool reshard = true;
  int batch = 2;  ///< sequences per data rank, each a micro-batch
};

std::string name_of(const Case& c) {
  return fmt::format("{}{}, {} layers, prefetch {}, clips {}, shard {}, tensor {}, {}, reshard {}, batch {}", c.arch,
                     c.tied ? " tied" : "", c.layers, c.prefetch, c.clips, c.shards, c.tensor, c.fp8, c.reshard,
                     c.batch);
}

train::Setup setup_of(const Case& c) {
  const std::string text = fmt::format(
      R"(
model: {{arch: {}, hidden: 256, ffn: 512, layers: {}, heads: 2, vocab: 64, seq: 256, tie_embeddings: {}}}
mesh: {{shard: {}, tensor: {}}}
fp8: {{{}}}
fsdp: {{prefetch: 0, reshard_after_forward: {}}}
optimizer: {{lr: 0.01, clip: {}}}
data: {{kind: synthetic, batch: {}, micro_batch: 1}}
run: {{steps: 3}}
)",
      c.arch, c.layers, c.tied, c.shards, c.tensor, c.fp8, c.reshard, c.clips ? 1.0 : 0.0, c.batch * c.shards);
  auto deck = deck::load_text(text, "update.yaml").config;
  deck.fsdp.prefetch = c.prefetch;  // set after loading: it may be more than a deck allows
  return train::Setup::make(deck, 0, 1);
}

/// The units whose gathers a run's schedule issues at the beginning of a step.
std::set<int> gathered_first(const train::Setup& setup) {
  const train::State state(setup, tensor::ArenaSet::measure());
  const auto visits = model::visits(setup.config.model, setup.weights.recipe, setup.layout.micro_batches);
  fsdp::GatherSchedule schedule = fsdp::make_schedule(state.units);
  schedule.begin_step(state.units.gather().copies_of(visits));
  std::set<int> units;
  for (const auto& gather : schedule.ahead()) units.insert(state.units.gather().unit_of(gather.copy));
  return units;
}

/// Whether a unit's weights are complete once it is updated, and need no scales that are set after all updates.
bool complete_when_updated(const Case& c) {
  const std::string fp8 = c.fp8;
  return fp8 == "recipe: none" || fp8 == "recipe: delayed";
}

template <class F>
void for_each_case(const F& f) {
  for (const char* arch : {"llama", "gpt2"})
    for (const bool tied : {false, true})
      for (int layers = 1; layers <= 4; ++layers)
        for (int prefetch = 0; prefetch <= layers + 2; ++prefetch)
          for (const char* fp8 : {"recipe: none", "recipe: delayed", "recipe: delayed, weights: bf16",
                                  "recipe: current", "recipe: block", "recipe: mxfp8"})
            for (const bool clips : {false, true})
              for (const auto& [shards, tensor] : {std::pair{1, 1}, {2, 1}, {2, 2}})
                for (const bool reshard : {true, false})
                  f(Case{arch, tied, layers, prefetch, clips, shards, tensor, fp8, reshard, 1 + layers % 2});
}

TEST(Update, NoUnitIsGatheredForTheNextStepBeforeItsOwnUpdate) {
  int early = 0;
  for_each_case([&](const Case& c) {
    SCOPED_TRACE(name_of(c));
    const train::Setup setup = setup_of(c);
    const UpdatePlan plan = train::plan_updates(setup);
    if (!plan.gather_before) return;
    ++early;
    ASSERT_LT(*plan.gather_before, plan.order.size());
    const auto first = gathered_first(setup);
    ASSERT_FALSE(first.empty());
    for (std::size_t i = *plan.gather_before; i < plan.order.size(); ++i)
      EXPECT_FALSE(first.contains(plan.order[i])) << "unit " << plan.order[i] << " is updated behind its gather";
    EXPECT_TRUE(complete_when_updated(c));
  });
  EXPECT_GT(early, 100);
}

TEST(Update, EveryUnitIsUpdatedOnce) {
  for_each_case([](const Case& c) {
    SCOPED_TRACE(name_of(c));
    const train::Setup setup = setup_of(c);
    const UpdatePlan plan = train::plan_updates(setup);
    std::vector<int> units = plan.order, all(setup.units.size());
    std::sort(units.begin(), units.end());
    for (std::size_t u = 0; u < all.size(); ++u) all[u] = static_cast<int>(u);
    if (c.tied && c.arch == std::string("llama")) all.erase(all.begin());  // the embedding has no parameters
    EXPECT_EQ(units, all);
  });
}

// Clipping needs the norm of all gradients before the first update. Tensor ranks sum the gradients of replicated
// parameters after all units are reduced.
TEST(Update, WaitsForTheNormWhereSomethingNeedsAllGradients) {
  for_each_case([](const Case& c) {
    SCOPED_TRACE(name_of(c));
    const train::Setup setup = setup_of(c);
    const UpdatePlan plan = train::plan_updates(setup);
    const bool waits = c.clips || c.tensor > 1;
    EXPECT_EQ(plan.when, waits ? UpdatePlan::When::after_norm : UpdatePlan::When::as_reduced);
    EXPECT_FALSE(waits && plan.gather_before);
  });
}

// The gathers run during one update whenever there is a unit whose weights they do not need.
TEST(Update, GathersEarlyWhereAnUpdateIsLeft) {
  for_each_case([](const Case& c) {
    SCOPED_TRACE(name_of(c));
    const train::Setup setup = setup_of(c);
    const UpdatePlan plan = train::plan_updates(setup);
    std::set<int> first;
    const auto visits = model::visits(setup.config.model, setup.weights.recipe, 1);
    for (std::size_t v = 0; v < visits.size() && v <= static_cast<std::size_t>(c.prefetch); ++v)
      first.insert(visits[v].unit);
    const bool left = first.size() < plan.order.size();
    const bool early = plan.when == UpdatePlan::When::as_reduced && complete_when_updated(c) && left;
    EXPECT_EQ(plan.gather_before.has_value(), early);
    EXPECT_TRUE(early || plan.order == model::reductions(setup.config.model));
  });
}

TEST(Update, OrderOfAFewLayers) {
  const auto plan = [](Case c) { return train::plan_updates(setup_of(c)); };
  // Units: 0 the embedding, 1 to 3 the layers, 4 the root. Gradients are reduced root first, embedding last.
  const UpdatePlan one_ahead = plan({.layers = 3, .prefetch = 1});
  EXPECT_EQ(one_ahead.order, (std::vector<int>{4, 3, 1, 0, 2}));
  EXPECT_EQ(one_ahead.gather_before, 4U);
  const UpdatePlan clipped = plan({.layers = 3, .prefetch = 1, .clips = true});
  EXPECT_EQ(clipped.order, (std::vector<int>{4, 3, 2, 1, 0}));
  // A tied llama has a root and layers only, and all of them are gathered first.
  const UpdatePlan tied = plan({.tied = true, .layers = 3, .prefetch = 3});
  EXPECT_EQ(tied.order, (std::vector<int>{3, 2, 1, 4}));
  EXPECT_FALSE(tied.gather_before);
}

}  // namespace
}  // namespace shard8
