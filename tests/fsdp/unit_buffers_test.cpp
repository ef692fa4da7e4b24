// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "fsdp/unit_buffers.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
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

/// The bytes that a tensor takes in an arena.
std::size_t block(std::int64_t elements, std::size_t size) {
  return (static_cast<std::size_t>(elements) * size + 255) / 256 * 256;
}

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
                for (const bool remainder : {false, true})
                  all.push_back({tests::first_of(shards, replicas), prefetch, reshard, accumulate, compute, gather,
                                 reduce, remainder});
  return all;
}

TEST(UnitBuffers, AllocatesTheMeasuredBytes) {
  for (const auto& units : {tests::small_units(), tests::piece_units(false), tests::piece_units(true)}) {
    for (const Options& options : all_options()) {
      auto measured = tensor::ArenaSet::measure();
      const UnitBuffers planned(units, options, measured);
      tensor::ArenaSet real(measured.bytes());
      const UnitBuffers buffers(units, options, real);
      ASSERT_EQ(real.bytes(), measured.bytes());
      for (const auto& t : buffers.master(kRoot)) ASSERT_NE(t.data, nullptr);
    }
  }
}

// Counted by hand for 4 shards. With padding the 11 rows of the embedding are 12, the 7, 13 and 2 of a layer 8, 16 and
// 4, the 1 and 10 of the root 4 and 12.
TEST(UnitBuffers, GatheredMemoryHasPrefetchPlusOneLayersTheRootAndTheEmbedding) {
  for (const auto& [dtype, size] : {std::pair{DType::fp32, std::size_t{4}}, {DType::bf16, std::size_t{2}}}) {
    const std::size_t embedding = block(12 * 6, size);
    const std::size_t layer = block(8, size) + block(16 * 6, size) + block(4 * 9, size);
    const std::size_t root = block(4, size) + block(12 * 6, size);
    for (const int prefetch : {0, 1, 2, 3, 7}) {
      Options options{tests::first_of(4), prefetch, true, false, dtype, dtype, DType::fp32};
      const auto held = static_cast<std::size_t>(std::min(prefetch + 1, kLayers));
      auto arenas = tensor::ArenaSet::measure();
      const UnitBuffers buffers(tests::small_units(), options, arenas);
      EXPECT_EQ(arenas[MemoryKind::gathered].high_water(), held * layer + embedding + root) << "prefetch " << prefetch;
      EXPECT_EQ(buffers.gather().rotating_slots(), static_cast<int>(held));
      options.reshard_after_forward = false;
      auto without_reshard = tensor::ArenaSet::measure();
      const UnitBuffers own_slots(tests::small_units(), options, without_reshard);
      EXPECT_EQ(without_reshard[MemoryKind::gathered].high_water(), kLayers * layer + embedding + root);
    }
  }
}

// Single-use units share a slot, as large as the larger of them, and their gradients use the rotating slots of the
// layers. With several micro-batches they have slots of their own.
TEST(UnitBuffers, SingleUseUnitsShareASlot) {
  auto units = tests::small_units();
  units[kEmbedding].single_use = units[kRoot].single_use = true;
  const std::size_t embedding = block(12 * 6, 4), root = block(4, 4) + block(12 * 6, 4);
  const std::size_t layer = block(8, 4) + block(16 * 6, 4) + block(4 * 9, 4);
  for (const bool accumulate : {false, true}) {
    const Options options{tests::first_of(4), 1, true, accumulate, DType::fp32, DType::fp32, DType::fp32};
    auto arenas = tensor::ArenaSet::measure(), apart = tensor::ArenaSet::measure();
    const UnitBuffers buffers(units, options, arenas);
    const UnitBuffers own(tests::small_units(), options, apart);
    EXPECT_EQ(arenas[MemoryKind::gathered].used(),
              2 * layer + (accumulate ? embedding + root : std::max(embedding, root)));
    EXPECT_EQ(buffers.gather().own_slot(kEmbedding) == buffers.gather().own_slot(kRoot), !accumulate);
    EXPECT_EQ(buffers.gather().rotating_slots(), 2);
    EXPECT_EQ(buffers.own_gradient_slot(kRoot) < 0, !accumulate);
    EXPECT_EQ(apart[MemoryKind::gradients].used() - arenas[MemoryKind::gradients].used(),
              accumulate ? 0 : embedding + root - 2 * (std::max(layer, root) - layer));
  }
}

TEST(UnitBuffers, GatheringInAnotherDtypeTakesMemoryForBoth) {
  auto arenas = tensor::ArenaSet::measure();
  const UnitBuffers buffers(tests::small_units(),
                            {tests::first_of(4), 0, true, false, DType::bf16, DType::fp32, DType::fp32}, arenas);
  // fp32 with padding, bf16 without.
  const auto both = [](std::int64_t rows, std::int64_t padded, std::int64_t cols) {
    return block(rows * cols, 2) + block(padded * cols, 4);
  };
  EXPECT_EQ(arenas[MemoryKind::gathered].high_water(),
            both(11, 12, 6) + both(7, 8, 1) + both(13, 16, 6) + both(2, 4, 9) + both(1, 4, 1) + both(10, 12, 6));
}

TEST(UnitBuffers, ParametersOfAUnitAreShardedOverTheSameAxes) {
  auto units = tests::small_units();
  units[1].parameters[1].sharing.sharded = {};
  auto arenas = tensor::ArenaSet::measure();
  try {
    const UnitBuffers buffers(units, {.place = tests::first_of(4)}, arenas);
    FAIL() << "one gather for two groups";
  } catch (const base::Error& e) {
    EXPECT_NE(std::string(e.what()).find("'fc1' is sharded over 'self' and summed over 'data', 'norm' over 'shard' and "
                                         "'replicate'"),
              std::string::npos)
        << e.what();
  }
}

TEST(UnitBuffers, OneShardCopiesNothing) {
  tensor::ArenaSet measured = tensor::ArenaSet::measure();
  const Options options{};
  const UnitBuffers planned(tests::small_units(), options, measured);
  tensor::ArenaSet arenas(measured.bytes());
  const UnitBuffers buffers(tests::small_units(), options, arenas);
  EXPECT_EQ(measured[MemoryKind::gathered].high_water(), 0u);
  for (int u = 0; u < kLayers + 2; ++u) {
    EXPECT_FALSE(buffers.gathers(u));
    EXPECT_FALSE(buffers.reduces(u));
    const auto& gathered = buffers.gather().place(buffers.gather().own_slot(u), u).gathered;
    const auto& gradients = buffers.gradient_place(buffers.own_gradient_slot(u), u);
    for (std::size_t p = 0; p < buffers.master(u).size(); ++p) {
      EXPECT_EQ(gathered[p].forward.at(0).data, buffers.master(u)[p].data);
      EXPECT_EQ(gradients.whole[p].data, buffers.gradient(u)[p].data);
    }
  }
}

// With one micro-batch there is memory for the unsharded gradients of two layers, with several for those of all layers.
TEST(UnitBuffers, UnshardedGradients) {
  const std::size_t shards =
      block(3 * 6, 4) + kLayers * (block(2, 4) + block(4 * 6, 4) + block(1 * 9, 4)) + block(1, 4) + block(3 * 6, 4);
  const std::size_t layer = block(8, 4) + block(16 * 6, 4) + block(4 * 9, 4);
  const std::size_t others = block(12 * 6, 4) + block(4, 4) + block(12 * 6, 4);
  auto arenas = tensor::ArenaSet::measure();
  Options options{tests::first_of(4), 1, true, false, DType::fp32, DType::fp32, DType::fp32};
  const UnitBuffers buffers(tests::small_units(), options, arenas);
  EXPECT_EQ(arenas[MemoryKind::gradients].high_water(), shards + 2 * layer + others);
  options.accumulate = true;
  auto accumulating = tensor::ArenaSet::measure();
  const UnitBuffers all(tests::small_units(), options, accumulating);
  EXPECT_EQ(accumulating[MemoryKind::gradients].high_water(), shards + kLayers * layer + others);
}

// Rotating slots are as large as the largest layer. With shards of multiples of 8 rows, 13 rows are padded to 32,
// not 16.
TEST(UnitBuffers, LayersMayHaveDifferentGranularities) {
  const Options options{tests::first_of(4), 1, true, false, DType::fp32, DType::fp32, DType::fp32};
  auto units = tests::small_units();
  auto equal = tensor::ArenaSet::measure();
  const UnitBuffers as_before(units, options, equal);
  units[2].parameters[1].granularity = 8;
  auto arenas = tensor::ArenaSet::measure();
  const UnitBuffers buffers(units, options, arenas);
  EXPECT_EQ(buffers.gradient_place(1, 1).whole[1].shape, (tensor::Shape{16, 6}));
  EXPECT_EQ(buffers.gradient_place(1, 2).whole[1].shape, (tensor::Shape{32, 6}));
  EXPECT_EQ(buffers.gather().place(1, 2).parameters[1].travel.forward.at(0).shape, (tensor::Shape{32, 6}));
  const auto two_buffers = 2 * (block(32 * 6, 4) - block(16 * 6, 4));
  EXPECT_EQ(arenas[MemoryKind::gathered].high_water() - equal[MemoryKind::gathered].high_water(), two_buffers);
  EXPECT_EQ(arenas[MemoryKind::gradients].high_water() - equal[MemoryKind::gradients].high_water(),
            two_buffers + block(8 * 6, 4) - block(4 * 6, 4));
}

// The memory lent for unit 1 is as large as its gradient shards; the memory lent for unit 2 is a byte too small.
TEST(UnitBuffers, GradientShardsLieInLentMemoryIfTheyFit) {
  const auto units = tests::small_units();
  const auto needed = block(2 * 1, 4) + block(4 * 6, 4) + block(1 * 9, 4);
  auto lender = tensor::Arena("lent", MemoryKind::activations, 2 * needed);
  std::vector<tensor::Tensor> lent(3);
  lent[1] = lender.allocate({static_cast<std::int64_t>(needed)}, DType::u8);
  lent[2] = lender.allocate({static_cast<std::int64_t>(needed) - 1}, DType::u8);
  for (const int shards : {1, 4}) {
    const Options options{tests::first_of(shards), 1, true, false, DType::fp32, DType::fp32, DType::fp32};
    auto measured = tensor::ArenaSet::measure(), without = tensor::ArenaSet::measure();
    const UnitBuffers plain(units, options, without);
    const UnitBuffers planned(units, options, measured, lent);
    EXPECT_EQ(without[MemoryKind::gradients].used() - measured[MemoryKind::gradients].used(), shards == 4 ? needed : 0);
    tensor::ArenaSet arenas(measured.bytes());
    const UnitBuffers buffers(units, options, arenas, lent);
    EXPECT_EQ(arenas.bytes(), measured.bytes());
    EXPECT_EQ(buffers.gradient(1).front().data == lent[1].data, shards == 4);
    if (shards == 4) {
      EXPECT_LE(buffers.gradient(1).back().data + buffers.gradient(1).back().bytes(), lent[1].data + needed);
    }
    for (std::size_t p = 0; p < units[1].parameters.size(); ++p)
      EXPECT_EQ(buffers.gradient(1)[p].shape, plain.gradient(1)[p].shape);
    EXPECT_NE(buffers.gradient(2).front().data, lent[2].data);
    EXPECT_NE(buffers.gradient(kEmbedding).front().data, nullptr);
  }
}

TEST(UnitBuffers, ShapesOfShards) {
  auto arenas = tensor::ArenaSet::measure();
  const UnitBuffers buffers(tests::small_units(),
                            {tests::first_of(4), 1, true, false, DType::bf16, DType::bf16, DType::fp32}, arenas);
  EXPECT_EQ(buffers.master(kEmbedding)[0].shape, (tensor::Shape{3, 6}));
  EXPECT_EQ(buffers.master(1)[1].shape, (tensor::Shape{4, 6}));
  EXPECT_EQ(buffers.master(1)[2].shape, (tensor::Shape{1, 9}));
  const auto& place = buffers.gather().place(0, 1);
  EXPECT_EQ(place.parameters[1].travel.forward.at(0).shape, (tensor::Shape{16, 6}));
  EXPECT_EQ(place.gathered[1].forward.at(0).shape, (tensor::Shape{13, 6}));
  EXPECT_EQ(place.gathered[0].forward.at(0).shape, (tensor::Shape{7}));
  EXPECT_EQ(place.gathered[1].forward.at(0).dtype, DType::bf16);
  EXPECT_EQ(buffers.master(1)[1].dtype, DType::fp32);
  EXPECT_EQ(buffers.gather().own_slot(1), -1);
  EXPECT_GE(buffers.gather().own_slot(kRoot), buffers.gather().rotating_slots());
}

TEST(UnitBuffers, EveryPieceToTransferHasAStoredShard) {
  auto arenas = tensor::ArenaSet::measure();
  const UnitBuffers buffers(tests::piece_units(true),
                            {tests::first_of(4), 1, true, false, DType::bf16, DType::bf16, DType::fp32}, arenas);
  const auto& stored = buffers.stored(2);
  ASSERT_EQ(stored.size(), 5u);
  EXPECT_TRUE(stored[0].forward.empty() && stored[0].backward.empty()) << "a norm";
  ASSERT_EQ(stored[1].forward.size(), 2u);
  EXPECT_TRUE(stored[1].backward.empty()) << "one copy";
  EXPECT_EQ(stored[1].forward[0].shape, (tensor::Shape{4, 6}));
  EXPECT_EQ(stored[1].forward[0].dtype, DType::e4m3);
  EXPECT_EQ(stored[1].forward[1].shape, (tensor::Shape{1, 2}));
  ASSERT_EQ(stored[2].backward.size(), 2u);
  EXPECT_EQ(stored[2].forward[1].shape, (tensor::Shape{4, 3}));
  EXPECT_EQ(stored[2].backward[1].shape, (tensor::Shape{1, 6}));
  EXPECT_EQ(stored[2].backward[1].dtype, DType::e8m0);
  // Each tensor takes one block: eight of stored shards in a layer, and four of the head.
  auto without = tensor::ArenaSet::measure();
  const UnitBuffers plain(tests::piece_units(false), buffers.options(), without);
  EXPECT_EQ(arenas[MemoryKind::weights].high_water() - without[MemoryKind::weights].high_water(),
            256u * ((kLayers - 1) * (2 + 4 + 2) + 4));
}

TEST(UnitBuffers, MastersWithARemainder) {
  for (const int shards : {1, 4}) {
    for (const DType compute : {DType::bf16, DType::fp32}) {
      const Options options{tests::first_of(shards), 1, true, false, compute, compute, DType::fp32, true};
      auto measured = tensor::ArenaSet::measure();
      const UnitBuffers planned(tests::small_units(), options, measured);
      tensor::ArenaSet arenas(measured.bytes());
      const UnitBuffers buffers(tests::small_units(), options, arenas);
      // Only bf16 weights on one shard are used in place.
      const bool alias = shards == 1 && compute == DType::bf16;
      EXPECT_EQ(measured[MemoryKind::gathered].high_water() == 0, alias);
      for (int u = 0; u < kLayers + 2; ++u) {
        EXPECT_EQ(buffers.gathers(u), !alias);
        const auto& gather = buffers.gather();
        const auto& place = gather.place(std::max(0, gather.own_slot(u)), u);
        for (std::size_t p = 0; p < buffers.master(u).size(); ++p) {
          EXPECT_EQ(buffers.master(u)[p].dtype, DType::bf16);
          EXPECT_EQ(buffers.remainder(u)[p].dtype, DType::i16);
          EXPECT_EQ(buffers.remainder(u)[p].shape, buffers.master(u)[p].shape);
          EXPECT_NE(buffers.remainder(u)[p].data, buffers.master(u)[p].data);
          EXPECT_EQ(place.gathered[p].forward.at(0).data == buffers.master(u)[p].data, alias);
        }
      }
    }
  }
  auto arenas = tensor::ArenaSet::measure();
  const UnitBuffers fp32(tests::small_units(), Options{}, arenas);
  ASSERT_EQ(fp32.remainder(1).size(), fp32.master(1).size());
  for (const auto& t : fp32.remainder(1)) EXPECT_EQ(t.count(), 0);
}

}  // namespace
}  // namespace shard8
