// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include "tests/train/decks.hpp"
#include "tests/train/training.hpp"
#include "train/plan.hpp"

// What the plan says against what a run did: collectives call by call, memory byte by byte.

namespace shard8 {
namespace {

using test::Variant;

constexpr int kSteps = 2;

/// Every value of every setting, on meshes of every kind of group and of two kinds together.
std::vector<Variant> variants() {
  return test::here({
      {{1, 1, 1}, "llama", false, 0, 1, true, "none", "fp32", "auto", "fp32"},
      {{1, 1, 1}, "gpt2", true, 3, 2, true, "selective", "bf16", "auto", "bf16"},
      {{1, 1, 1}, "gpt2", false, 1, 0, false, "full", "bf16", "fp32", "fp32"},
      {{1, 2, 1}, "llama", false, 0, 1, true, "none", "fp32", "auto", "fp32"},
      {{1, 2, 1}, "llama", true, 1, 0, true, "full", "bf16", "fp32", "bf16"},
      {{1, 2, 1}, "gpt2", true, 3, 2, true, "selective", "bf16", "auto", "fp32"},
      {{1, 2, 1}, "gpt2", false, 1, 3, false, "none", "fp32", "auto", "bf16"},
      {{1, 1, 2}, "llama", false, 0, 1, true, "full", "fp32", "auto", "fp32"},
      {{1, 1, 2}, "llama", true, 3, 2, false, "selective", "bf16", "auto", "fp32"},
      {{1, 1, 2}, "gpt2", true, 1, 0, true, "none", "bf16", "fp32", "bf16"},
      {{1, 1, 2}, "gpt2", false, 0, 1, true, "full", "bf16", "auto", "fp32"},
      {{2, 1, 1}, "gpt2", true, 3, 1, true, "none", "fp32", "auto", "fp32"},
      {{2, 1, 1}, "llama", false, 0, 1, true, "none", "bf16", "auto", "bf16"},
      {{2, 1, 1}, "llama", true, 0, 1, true, "none", "fp32", "auto", "fp32"},
      {{1, 3, 1}, "gpt2", true, 0, 1, true, "full", "fp32", "auto", "fp32"},
      {{1, 3, 1}, "llama", true, 1, 2, true, "selective", "bf16", "auto", "bf16"},
      {{1, 3, 1}, "llama", false, 1, 0, false, "none", "bf16", "fp32", "fp32"},
      {{1, 2, 2}, "llama", false, 1, 1, true, "selective", "fp32", "auto", "fp32"},
      {{1, 2, 2}, "gpt2", true, 0, 2, true, "none", "bf16", "fp32", "bf16"},
      {{1, 2, 2}, "llama", true, 3, 0, false, "full", "bf16", "auto", "fp32"},
      {{2, 2, 1}, "llama", true, 1, 2, true, "full", "fp32", "auto", "fp32"},
      {{2, 2, 1}, "gpt2", false, 0, 1, true, "none", "bf16", "auto", "bf16"},
      {{2, 2, 1}, "gpt2", true, 0, 0, false, "selective", "fp32", "auto", "bf16"},
      {{2, 1, 2}, "gpt2", false, 1, 1, true, "selective", "bf16", "auto", "bf16"},
      {{2, 1, 2}, "llama", false, 0, 2, true, "full", "fp32", "auto", "fp32"},
      {{1, 4, 1}, "llama", false, 0, 2, true, "none", "bf16", "auto", "fp32"},
      {{1, 4, 1}, "gpt2", true, 1, 1, true, "full", "fp32", "auto", "bf16"},
      {{1, 1, 4}, "gpt2", true, 0, 1, true, "full", "bf16", "auto", "fp32"},
      {{1, 1, 4}, "llama", true, 1, 1, true, "selective", "fp32", "auto", "fp32"},
  });
}

std::string text(const train::Traffic& traffic, std::uint64_t times) {
  std::string lines;
  for (const auto& [key, calls] : traffic)
    lines += fmt::format("{} in {} of {}: {} bytes of {}, {} calls\n", profile::name_of(key.op), key.group,
                         key.group_size, key.bytes, key.dtype, calls * times);
  return lines;
}

void expect_traffic(test::Training& training) {
  train::Traffic counted;
  for (const auto& [key, stats] : training.log().entries()) counted[key] = stats.calls;
  const auto planned = train::traffic(training.setup(), training.trainer().state());
  EXPECT_EQ(text(counted, 1), text(planned, kSteps));
  EXPECT_EQ(counted.empty(), test::world_size() == 1);
  EXPECT_EQ(text(train::make_plan(training.setup().config, 1).traffic, 1), text(planned, 1));
}

void expect_memory(test::Training& training) {
  const auto plan = train::make_plan(training.setup().config, training.setup().threads);
  EXPECT_EQ(training.trainer().state().arenas.bytes(), plan.memory);
  EXPECT_EQ(train::state_bytes(training.setup()), plan.memory);
  const auto& mesh = training.mesh();
  std::size_t held = 0;
  for (const auto* group : {&mesh.world, &mesh.replicate, &mesh.shard, &mesh.tensor, &mesh.data, &mesh.model})
    held += group->scratch_bytes();
  EXPECT_LE(held, plan.reduction_buffers);
  // The plan rounds each tensor up, no more.
  EXPECT_GE(static_cast<double>(held), 0.97 * static_cast<double>(plan.reduction_buffers));
}

TEST(Plan, IsWhatARunDid) {
  ASSERT_FALSE(variants().empty());
  for (const Variant& v : variants()) {
    SCOPED_TRACE(test::name_of(v));
    test::Training training(test::small_deck(v, kSteps), MPI_COMM_WORLD);
    training.run(0, kSteps);
    expect_traffic(training);
    expect_memory(training);
  }
}

/// Bytes of an arena's bf16 tensor whose rows are padded to a multiple of the ranks.
std::size_t gathered(std::int64_t rows, std::int64_t cols = 1) {
  const std::int64_t ranks = test::world_size();
  const auto bytes = static_cast<std::size_t>((rows + ranks - 1) / ranks * ranks * cols) * 2;
  return (bytes + 255) / 256 * 256;
}

// By hand, for the small Llama over as many shards as there are ranks.
TEST(GatheredAtOnce, LayersAheadRootAndEmbedding) {
  const std::size_t layer =
      gathered(48) + gathered(96, 48) + gathered(48, 48) + gathered(48) + gathered(192, 48) + gathered(48, 96);
  const std::size_t others = gathered(67, 48) + gathered(48) + gathered(67, 48);
  for (int prefetch = 0; prefetch <= 3; ++prefetch) {
    Variant v{{1, test::world_size(), 1}, "llama", false, 2, prefetch, true, "none", "bf16", "auto", "fp32"};
    SCOPED_TRACE(test::name_of(v));
    test::Training training(test::small_deck(v, kSteps), MPI_COMM_WORLD);
    training.run(0, kSteps);
    const auto layers = static_cast<std::size_t>(std::min(prefetch + 1, 3));
    const auto bytes = training.trainer().state().arenas.bytes();
    EXPECT_EQ(bytes[static_cast<std::size_t>(tensor::MemoryKind::gathered)], layers * layer + others);
    EXPECT_EQ(training.trainer().weights().schedule().peak_rotating_units(), static_cast<int>(layers));
  }
}

}  // namespace
}  // namespace shard8
