// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "fsdp/unit_buffers.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/fsdp/units.hpp"

namespace shard8 {
namespace {

using fsdp::Options;
using fsdp::UnitBuffers;
using tensor::DType;
using tensor::MemoryKind;
using tests::kEmbedding;
using tests::kLayers;
using tests::kRoot;

std::vector<Options> all_options() {
  std::vector<Options> all;
  for (const int shards : {1, 2, 4, 16})
    for (const int replicas : {1, 2})
      for (const int prefetch : {0, 1, 3, 9})
        for (const bool reshard : {true, false})
          for (const bool accumulate : {false, true})
            for (const auto& [compute, gather] :
                 {std::pair{DType::fp32, DType::fp32}, {DType::bf16, DType::bf16}, {DType::bf16, DType::fp32}})
              for (const DType reduce : {DType::fp32, DType::bf16})
                all.push_back({shards, replicas, prefetch, reshard, accumulate, compute, gather, reduce});
  return all;
}

TEST(UnitBuffers, MeasuredIsAllocated) {
  for (const Options& options : all_options()) {
    auto measured = tensor::ArenaSet::measure();
    const UnitBuffers planned(tests::small_units(), options, measured);
    tensor::ArenaSet real(measured.bytes());
    const UnitBuffers buffers(tests::small_units(), options, real);
    ASSERT_EQ(real.bytes(), measured.bytes());
    for (const auto& t : buffers.master(kRoot)) ASSERT_NE(t.data, nullptr);
    for (const auto& t : planned.master(kRoot)) ASSERT_EQ(t.data, nullptr);
  }
}

/// Bytes of an arena's tensor.
std::size_t block(std::int64_t elements, std::size_t size) {
  return (static_cast<std::size_t>(elements) * size + 255) / 256 * 256;
}

// By hand, over 4 shards: the embedding's 11 rows become 12, a layer's 7, 13 and 2 become 8, 16 and
// 4, the root's 1 and 10 become 4 and 12.
TEST(UnitBuffers, GatheredAtOnceAreTheLayersAheadTheRootAndTheEmbedding) {
  for (const auto& [dtype, size] : {std::pair{DType::fp32, std::size_t{4}}, {DType::bf16, std::size_t{2}}}) {
    const std::size_t embedding = block(12 * 6, size);
    const std::size_t layer = block(8, size) + block(16 * 6, size) + block(4 * 9, size);
    const std::size_t root = block(4, size) + block(12 * 6, size);
    for (const int prefetch : {0, 1, 2, 3, 7}) {
      Options options{4, 1, prefetch, true, false, dtype, dtype, DType::fp32};
      const auto held = static_cast<std::size_t>(std::min(prefetch + 1, kLayers));
      auto arenas = tensor::ArenaSet::measure();
      const UnitBuffers buffers(tests::small_units(), options, arenas);
      EXPECT_EQ(arenas[MemoryKind::gathered].high_water(), held * layer + embedding + root) << "prefetch " << prefetch;
      EXPECT_EQ(buffers.rotating_gather_slots(), static_cast<int>(held));
      options.reshard_after_forward = false;
      auto keeping = tensor::ArenaSet::measure();
      const UnitBuffers kept(tests::small_units(), options, keeping);
      EXPECT_EQ(keeping[MemoryKind::gathered].high_water(), kLayers * layer + embedding + root);
    }
  }
}

TEST(UnitBuffers, TravellingInAnotherTypeTakesBoth) {
  auto arenas = tensor::ArenaSet::measure();
  const UnitBuffers buffers(tests::small_units(), {4, 1, 0, true, false, DType::bf16, DType::fp32, DType::fp32},
                            arenas);
  const auto both = [](std::int64_t elements) { return block(elements, 2) + block(elements, 4); };
  EXPECT_EQ(arenas[MemoryKind::gathered].high_water(),
            both(12 * 6) + both(8) + both(16 * 6) + both(4 * 9) + both(4) + both(12 * 6));
}

TEST(UnitBuffers, OneShardCopiesNothing) {
  tensor::ArenaSet measured = tensor::ArenaSet::measure();
  const Options options{};
  const UnitBuffers planned(tests::small_units(), options, measured);
  tensor::ArenaSet arenas(measured.bytes());
  const UnitBuffers buffers(tests::small_units(), options, arenas);
  EXPECT_FALSE(buffers.gathers());
  EXPECT_FALSE(buffers.reduces());
  EXPECT_EQ(measured[MemoryKind::gathered].high_water(), 0u);
  for (int u = 0; u < kLayers + 2; ++u) {
    const auto gather = static_cast<std::size_t>(buffers.own_gather_slot(u));
    const auto gradient = static_cast<std::size_t>(buffers.own_gradient_slot(u));
    for (std::size_t p = 0; p < buffers.master(u).size(); ++p) {
      EXPECT_EQ(buffers.gather_slots()[gather].compute[p].data, buffers.master(u)[p].data);
      EXPECT_EQ(buffers.gradient_slots()[gradient].whole[p].data, buffers.gradient(u)[p].data);
    }
  }
}

// Sharded, the gradients of two layers are held whole; summed over micro-batches, those of all.
TEST(UnitBuffers, GradientsHeldWhole) {
  const std::size_t shards =
      block(3 * 6, 4) + kLayers * (block(2, 4) + block(4 * 6, 4) + block(1 * 9, 4)) + block(1, 4) + block(3 * 6, 4);
  const std::size_t layer = block(8, 4) + block(16 * 6, 4) + block(4 * 9, 4);
  const std::size_t others = block(12 * 6, 4) + block(4, 4) + block(12 * 6, 4);
  auto arenas = tensor::ArenaSet::measure();
  Options options{4, 1, 1, true, false, DType::fp32, DType::fp32, DType::fp32};
  const UnitBuffers buffers(tests::small_units(), options, arenas);
  EXPECT_EQ(arenas[MemoryKind::gradients].high_water(), shards + 2 * layer + others);
  options.accumulate = true;
  auto accumulating = tensor::ArenaSet::measure();
  const UnitBuffers all(tests::small_units(), options, accumulating);
  EXPECT_EQ(accumulating[MemoryKind::gradients].high_water(), shards + kLayers * layer + others);
}

TEST(UnitBuffers, ShapesOfShards) {
  auto arenas = tensor::ArenaSet::measure();
  const UnitBuffers buffers(tests::small_units(), {4, 1, 1, true, false, DType::bf16, DType::bf16, DType::fp32},
                            arenas);
  EXPECT_EQ(buffers.master(kEmbedding)[0].shape, (tensor::Shape{3, 6}));
  EXPECT_EQ(buffers.master(1)[1].shape, (tensor::Shape{4, 6}));
  EXPECT_EQ(buffers.master(1)[2].shape, (tensor::Shape{1, 9}));
  EXPECT_EQ(buffers.gather_slots()[0].compute[1].shape, (tensor::Shape{16, 6}));
  EXPECT_EQ(buffers.gather_slots()[0].compute[1].dtype, DType::bf16);
  EXPECT_EQ(buffers.master(1)[1].dtype, DType::fp32);
  EXPECT_EQ(buffers.own_gather_slot(1), -1);
  EXPECT_GE(buffers.own_gather_slot(kRoot), buffers.rotating_gather_slots());
}

}  // namespace
}  // namespace shard8
