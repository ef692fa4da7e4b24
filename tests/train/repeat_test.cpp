// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <set>

#include "tests/train/decks.hpp"
#include "tests/train/training.hpp"

// A training gives the same bits when it runs a second time, recomputes activations, or gathers earlier or later.

namespace shard8 {
namespace {

using test::Curve;
using test::expect_same;
using test::Variant;

constexpr int kRepeatedSteps = 3;

Curve train(const Variant& v) { return test::train_curve(test::small_deck(v, kRepeatedSteps)); }

std::vector<Variant> variants() {
  std::vector<Variant> all;
  for (const auto& mesh : {std::array{1, 1, 1}, {1, 2, 1}, {1, 1, 2}, {1, 2, 2}, {2, 2, 1}, {1, 3, 1}})
    for (const char* arch : {"llama", "gpt2"})
      for (const char* compute : {"fp32", "bf16"})
        all.push_back({mesh, arch, false, 2, 1, true, "none", compute, "auto", "fp32"});
  return test::here(all);
}

TEST(Repeat, SameBits) {
  for (const Variant& v : variants()) {
    const Curve first = train(v);
    EXPECT_NE(first.losses.front(), first.losses.back());
    std::vector<Variant> same = {v, v, v};
    same[1].recompute = "selective";
    same[2].recompute = "full";
    for (const Variant& again : same) {
      SCOPED_TRACE(test::name_of(again));
      expect_same(train(again), first);
    }
  }
}

// Gathering weights earlier or later changes no value.
TEST(Repeat, SameBitsWheneverGathered) {
  for (const Variant& v : variants()) {
    if ((v.arch == std::string("llama")) != (v.compute == std::string("fp32"))) continue;
    const Curve once = train(v);
    for (const auto& [prefetch, reshard] : {std::pair{0, true}, {2, true}, {0, false}}) {
      Variant other = v;
      other.prefetch = prefetch;
      other.reshard = reshard;
      SCOPED_TRACE(test::name_of(other));
      expect_same(train(other), once);
    }
  }
}

// Without clipping, a unit is updated as soon as its own gradients are reduced. With a bound that no norm reaches,
// units are updated after all gradients are reduced.
TEST(Repeat, SameBitsWhenNothingIsClipped) {
  for (const Variant& v : variants()) {
    SCOPED_TRACE(test::name_of(v));
    deck::Config config = test::small_deck(v, kRepeatedSteps);
    config.optimizer.clip = 0;
    Curve off = test::train_curve(config);
    config.optimizer.clip = 1e9;
    const Curve unreached = test::train_curve(config);
    ASSERT_EQ(off.norms.size(), unreached.norms.size());
    for (std::size_t s = 0; s < off.norms.size(); ++s)  // squares are added in another order
      EXPECT_NEAR(off.norms[s], unreached.norms[s], 1e-12 * unreached.norms[s]);
    off.norms = unreached.norms;
    expect_same(off, unreached);
  }
}

// Without clipping and with one tensor rank, the next step's first gathers are issued before the last update of this
// step. A prefetch of all layers makes every unit of a tied model one of those first gathers.
TEST(Repeat, SameBitsWhenEveryUnitIsGatheredFirst) {
  for (Variant v : variants()) {
    if (v.mesh[2] > 1) continue;
    v.tied = true;
    SCOPED_TRACE(test::name_of(v));
    deck::Config config = test::small_deck(v, kRepeatedSteps);
    config.optimizer.clip = 0;
    const Curve one_ahead = test::train_curve(config);
    for (const std::int64_t prefetch : {config.model.layers - 1, config.model.layers}) {
      SCOPED_TRACE(prefetch);
      config.fsdp.prefetch = prefetch;
      expect_same(test::train_curve(config), one_ahead);
    }
  }
}

/// Step, tokens and last target of every real sequence of a data rank.
std::multiset<std::vector<int>> samples(const deck::Config& config, int data_ranks, int data_rank) {
  io::IoThread io;
  data::Loader loader(config.data, config.model.seq, config.model.vocab, data_ranks, data_rank, io);
  std::multiset<std::vector<int>> seen;
  for (std::int64_t step = 0; step < kRepeatedSteps; ++step) {
    for (std::int64_t m = 0; m < loader.micro_batches(); ++m) {
      const auto batch = loader.get(step, m);
      const auto seq = static_cast<std::size_t>(config.model.seq);
      for (std::size_t s = 0; s < static_cast<std::size_t>(batch.sequences); ++s) {
        const auto tokens = batch.tokens.subspan(s * seq, seq);
        std::vector<int> sample{static_cast<int>(step)};
        sample.insert(sample.end(), tokens.begin(), tokens.end());
        sample.push_back(batch.targets[(s + 1) * seq - 1]);
        seen.insert(sample);
      }
    }
  }
  return seen;
}

/// The samples of all data ranks, from tensor rank 0 of each.
std::multiset<std::vector<int>> gathered(const Variant& v) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const base::Place place({v.mesh[0], v.mesh[1], v.mesh[2]}, rank);
  const auto mine =
      samples(test::small_deck(v, kRepeatedSteps), v.mesh[0] * v.mesh[1], place.rank(base::AxisSet::data));
  std::vector<int> flat;
  if (place[base::Axis::tensor] == 0)
    for (const auto& sample : mine) flat.insert(flat.end(), sample.begin(), sample.end());
  int count = static_cast<int>(flat.size());
  std::vector<int> counts(static_cast<std::size_t>(test::world_size())), starts(counts.size());
  MPI_Allgather(&count, 1, MPI_INT, counts.data(), 1, MPI_INT, MPI_COMM_WORLD);
  for (std::size_t r = 1; r < counts.size(); ++r) starts[r] = starts[r - 1] + counts[r - 1];
  std::vector<int> all(static_cast<std::size_t>(starts.back() + counts.back()));
  MPI_Allgatherv(flat.data(), count, MPI_INT, all.data(), counts.data(), starts.data(), MPI_INT, MPI_COMM_WORLD);
  std::multiset<std::vector<int>> samples;
  const std::ptrdiff_t length = 10;  // step, seq tokens, last target
  for (auto it = all.begin(); it != all.end(); it += length) samples.insert({it, it + length});
  return samples;
}

TEST(Samples, OfAStepAreTheSameOnEveryMesh) {
  const auto want = samples(test::small_deck({}, kRepeatedSteps), 1, 0);
  ASSERT_EQ(want.size(), std::size_t{7} * kRepeatedSteps);
  for (const Variant& v : variants()) {
    SCOPED_TRACE(test::name_of(v));
    EXPECT_EQ(gathered(v), want);
  }
}

}  // namespace
}  // namespace shard8
