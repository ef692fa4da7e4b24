// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <cmath>

#include "tests/train/decks.hpp"
#include "tests/train/training.hpp"

// Gradients that are reduced in each micro-batch and summed in shards (fsdp.accumulate: sharded) give the training of
// gradients that are summed unsharded and reduced once.

namespace shard8 {
namespace {

using test::Curve;
using test::expect_same;
using test::Fp8Variant;
using test::Variant;

constexpr int kSteps = 4;

deck::Config sharded(deck::Config config) {
  config.fsdp.accumulate = deck::Accumulate::sharded;
  return config;
}

const std::vector<std::array<int, 3>> kMeshes = {{1, 2, 1}, {2, 1, 1}, {1, 1, 2}, {1, 3, 1},
                                                 {1, 2, 2}, {2, 2, 1}, {2, 1, 2}, {1, 4, 1}};

/// Decks of 7 sequences a step on the meshes of as many ranks as there are. Micro-batches of 1, 2 or 3 sequences; 0:
/// one micro-batch. Each mesh has tied and other models, recomputation and not, reshards and not.
std::vector<Variant> variants(const char* compute, const char* reduce, const std::vector<int>& micro_batches) {
  std::vector<Variant> all;
  for (const auto& mesh : kMeshes)
    for (const int micro_batch : micro_batches)
      for (const bool tied : {false, true})
        all.push_back({mesh, tied ? "gpt2" : "llama", tied, micro_batch, micro_batch == 1 ? 2 : 1, micro_batch != 3,
                       tied ? "full" : "none", compute, "auto", reduce});
  return test::here(all);
}

/// Relative bounds of losses and norms. The first step has the same weights in both trainings. AdamW amplifies
/// differences of small gradients later.
struct Bounds {
  double losses = 0, first_norm = 0;
  double norms = 0;  ///< 0: not compared
};

void expect_near(const Curve& got, const Curve& want, const Bounds& bounds) {
  ASSERT_EQ(got.losses.size(), want.losses.size());
  EXPECT_EQ(got.losses.front(), want.losses.front());
  EXPECT_NEAR(got.norms.front(), want.norms.front(), bounds.first_norm * want.norms.front());
  for (std::size_t s = 0; s < want.losses.size(); ++s) {
    EXPECT_NEAR(got.losses[s], want.losses[s], bounds.losses * want.losses[s]) << "step " << s;
    if (bounds.norms > 0) {
      EXPECT_NEAR(got.norms[s], want.norms[s], bounds.norms * want.norms[s]) << "step " << s;
    }
  }
}

void compare(const Variant& v, const Bounds& bounds) {
  const char* clip = v.tied == (v.micro_batch == 2) ? ", clip: 0" : ", clip: 0.5";
  SCOPED_TRACE(test::name_of(v) + clip);
  const deck::Config config = test::small_deck(v, kSteps, "", clip);
  const Curve full = test::train_curve(config);
  EXPECT_NE(full.losses.front(), full.losses.back());
  expect_near(test::train_curve(sharded(config)), full, bounds);
}

TEST(Accumulate, ShardedEqualsFull) {
  for (const Variant& v : variants("fp32", "fp32", {1, 2, 3})) compare(v, {2e-6, 1e-6, 2e-4});
}

// Each micro-batch's gradients are rounded to bf16, in place of their sum.
TEST(Accumulate, ShardedEqualsFullReducedInBf16) {
  for (const Variant& v : variants("fp32", "bf16", {2})) compare(v, {2e-3, 2e-3, 0});
}

TEST(Accumulate, ShardedEqualsFullInEveryRecipe) {
  for (const auto& mesh : kMeshes) {
    if (!test::has_ranks_of(mesh) || mesh[1] == 1) continue;
    for (const char* recipe : {"delayed", "current", "block", "mxfp8"}) {
      Fp8Variant v;
      v.mesh = mesh;
      v.recipe = recipe;
      v.micro_batch = mesh[2];  // block scales need 128 tokens on each tensor rank
      v.recompute = mesh[0] == 1 ? "none" : "full";
      SCOPED_TRACE(test::name_of(v));
      const auto config = test::fp8_deck(v, 3, 2, mesh[0] * mesh[1] * mesh[2] * 2);
      expect_near(test::train_curve(sharded(config)), test::train_curve(config), {1e-3, 1e-6, 0});
    }
  }
}

// One micro-batch, or one shard: nothing is summed in another order.
TEST(Accumulate, OneMicroBatchOrOneShardHasTheSameBits) {
  for (const char* reduce : {"fp32", "bf16"}) {
    for (const Variant& v : variants("bf16", reduce, {0, 3})) {
      if (v.micro_batch > 0 && v.mesh[1] > 1) continue;
      SCOPED_TRACE(test::name_of(v));
      const deck::Config config = test::small_deck(v, kSteps);
      expect_same(test::train_curve(sharded(config)), test::train_curve(config));
    }
  }
}

/// Sums reduced in fp32 and in bf16.
std::vector<Variant> reduced_in_each() {
  std::vector<Variant> all = variants("bf16", "fp32", {1});
  const std::vector<Variant> bf16 = variants("bf16", "bf16", {2});
  all.insert(all.end(), bf16.begin(), bf16.end());
  std::erase_if(all, [](const Variant& v) { return v.mesh[1] == 1; });
  return all;
}

TEST(Accumulate, ShardedRepeatsBitForBit) {
  for (const Variant& v : reduced_in_each()) {
    SCOPED_TRACE(test::name_of(v));
    const Curve first = test::train_curve(sharded(test::small_deck(v, kSteps)));
    Variant other = v;
    other.recompute = v.tied ? "selective" : "full";
    other.prefetch = v.tied ? 0 : 3;
    other.reshard = !v.reshard;
    expect_same(test::train_curve(sharded(test::small_deck(other, kSteps))), first);
  }
}

// Units are updated as they are reduced, or after the norm of all gradients.
TEST(Accumulate, TheOrderOfUpdatesChangesNoBit) {
  for (const Variant& v : variants("fp32", "fp32", {1})) {
    SCOPED_TRACE(test::name_of(v));
    deck::Config config = sharded(test::small_deck(v, kSteps));
    config.optimizer.clip = 0;
    Curve off = test::train_curve(config);
    config.optimizer.clip = 1e9;
    const Curve unreached = test::train_curve(config);
    for (std::size_t s = 0; s < off.norms.size(); ++s)
      EXPECT_NEAR(off.norms[s], unreached.norms[s], 1e-12 * unreached.norms[s]);
    off.norms = unreached.norms;
    expect_same(off, unreached);
  }
}

TEST(Accumulate, TheStepAfterAStopGoesOnBitForBit) {
  for (const Variant& v : reduced_in_each()) {
    SCOPED_TRACE(test::name_of(v));
    const deck::Config config = sharded(test::small_deck(v, kSteps));
    test::Training first(config, MPI_COMM_WORLD);
    first.run(0, kSteps / 2);
    deck::Config other = config;
    other.model.init_seed += 1;
    test::Training second(other, MPI_COMM_WORLD);
    test::hand_over(first, second, kSteps / 2);
    const auto want = first.run(kSteps / 2, kSteps / 2), got = second.run(kSteps / 2, kSteps / 2);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t s = 0; s < want.size(); ++s) {
      EXPECT_EQ(got[s].loss, want[s].loss) << "step " << want[s].step;
      EXPECT_EQ(got[s].gradient_norm, want[s].gradient_norm) << "step " << want[s].step;
    }
    EXPECT_EQ(test::hashes_of(second), test::hashes_of(first));
  }
}

// Operations in order, collectives call by call, memory byte by byte.
TEST(Accumulate, ThePlanIsWhatARunDid) {
  constexpr int kPlanned = 3;
  for (const Variant& v : reduced_in_each()) {
    for (const char* clip : {", clip: 1.0", ", clip: 0"}) {
      const bool overlap = v.mesh[2] > 1 && !v.tied;
      SCOPED_TRACE(test::name_of(v) + clip);
      const char* const methods = overlap ? test::kOverlaps[0] : "";
      test::Training training(sharded(test::small_deck(v, kPlanned, methods, clip)), MPI_COMM_WORLD);
      test::expect_listed_operations(training);
      test::expect_planned_traffic(training, kPlanned - 1);
      test::expect_planned_memory(training);
    }
  }
}

}  // namespace
}  // namespace shard8
