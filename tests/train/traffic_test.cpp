// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include "tests/train/decks.hpp"
#include "tests/train/training.hpp"

// Compares plans with runs: operations in order, collectives call by call, memory byte by byte.

namespace shard8 {
namespace {

using test::Variant;

constexpr int kCountedSteps = 3;

/// Every value of every setting, on meshes with one kind of group and with two kinds.
std::vector<Variant> counted_variants() {
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

void expect_plan(const Variant& v, const std::string& overlap, const char* clip) {
  SCOPED_TRACE(test::name_of(v) + clip + overlap);
  test::Training training(test::small_deck(v, kCountedSteps, overlap, clip), MPI_COMM_WORLD);
  test::expect_listed_operations(training);
  test::expect_planned_traffic(training, kCountedSteps - 1);
  test::expect_planned_memory(training);
}

TEST(Plan, IsWhatARunDid) {
  ASSERT_FALSE(counted_variants().empty());
  for (const Variant& v : counted_variants()) {
    for (const char* clip : {", clip: 1.0", ", clip: 0"}) expect_plan(v, "", clip);
    if (v.mesh[2] == 1) continue;
    for (const char* overlap : test::kOverlaps) expect_plan(v, overlap, v.tied ? ", clip: 0" : ", clip: 1.0");
    if (!tensor::kDevice) expect_plan(v, test::kRing, v.tied ? ", clip: 0" : ", clip: 1.0");
  }
}

/// Bytes of an arena's bf16 tensor whose rows are padded to a multiple of the ranks.
std::size_t gathered(std::int64_t rows, std::int64_t cols = 1) {
  const std::int64_t ranks = test::world_size();
  const auto bytes = static_cast<std::size_t>((rows + ranks - 1) / ranks * ranks * cols) * 2;
  return (bytes + 255) / 256 * 256;
}

// Sizes computed by hand, for the small llama over as many shards as there are ranks.
TEST(GatheredAtOnce, LayersAheadRootAndEmbedding) {
  const std::size_t layer =
      gathered(48) + gathered(96, 48) + gathered(48, 48) + gathered(48) + gathered(192, 48) + gathered(48, 96);
  const std::size_t embedding = gathered(67, 48), root = gathered(48) + gathered(67, 48);
  for (int prefetch = 0; prefetch <= 3; ++prefetch) {
    Variant v{{1, test::world_size(), 1}, "llama", false, 2, prefetch, true, "none", "bf16", "auto", "fp32"};
    SCOPED_TRACE(test::name_of(v));
    test::Training training(test::small_deck(v, kCountedSteps), MPI_COMM_WORLD);
    training.run(0, kCountedSteps);
    const auto layers = static_cast<std::size_t>(std::min(prefetch + 1, 3));
    const auto bytes = training.trainer().state().arenas.bytes();
    const bool share = test::world_size() > 1 && !training.setup().fsdp.accumulate;
    const std::size_t others = share ? std::max(embedding, root) : embedding + root;
    EXPECT_EQ(bytes[static_cast<std::size_t>(tensor::MemoryKind::gathered)], layers * layer + others);
    // No buffer is emptied in a step. So the buffers that hold a unit after it are the most that held one at once.
    const auto& gather = training.trainer().state().units.gather();
    std::size_t held = 0;
    for (int copy = 0; copy < gather.copies(); ++copy)
      if (gather.own_slot(copy) < 0 && training.trainer().weights().schedule().slot_of(copy) >= 0) ++held;
    EXPECT_EQ(held, layers);
  }
}

}  // namespace
}  // namespace shard8
