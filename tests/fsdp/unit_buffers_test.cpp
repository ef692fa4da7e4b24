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
std::size_t padded_block(std::int64_t elements, std::size_t size) {
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
                  for (const bool sharded_sums : {false, true})
                    all.push_back({tests::first_of(shards, replicas), prefetch, reshard, accumulate, compute, gather,
                                   reduce, remainder, sharded_sums});
  return all;
}

TEST(UnitBuffers, AllocatesTheMeasuredBytes) {
  for (const auto& units : {tests::small_units(), tests::format_units(false), tests::format_units(true)}) {
    for (const Options& options : all_options()) {
      auto measured = tensor::ArenaSet::measure();
      const UnitBuffers planned(units, options, measured);
      tensor::ArenaSet real(measured.bytes());
      const UnitBuffers buffers(units, options, real);
      ASSERT_EQ(real.bytes(), measured.bytes());
      for (const auto& w : buffers.weights(kRoot)) ASSERT_NE(w.master.data, nullptr);
    }
  }
}

// Counted by hand for 4 shards. With padding the 11 rows of the embedding are 12, the 7, 13 and 2 of a layer 8, 16 and
// 4, the 1 and 10 of the root 4 and 12.
TEST(UnitBuffers, GatheredMemoryHasPrefetchPlusOneLayersTheRootAndTheEmbedding) {
  for (const auto& [dtype, size] : {std::pair{DType::fp32, std::size_t{4}}, {DType::bf16, std::size_t{2}}}) {
    const std::size_t embedding = padded_block(12 * 6, size);
    const std::size_t layer = padded_block(8, size) + padded_block(16 * 6, size) + padded_block(4 * 9, size);
    const std::size_t root = padded_block(4, size) + padded_block(12 * 6, size);
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
  const std::size_t embedding = padded_block(12 * 6, 4), root = padded_block(4, 4) + padded_block(12 * 6, 4);
  const std::size_t layer = padded_block(8, 4) + padded_block(16 * 6, 4) + padded_block(4 * 9, 4);
  for (const bool accumulate : {false, true}) {
    const Options options{tests::first_of(4), 1, true, accumulate, DType::fp32, DType::fp32, DType::fp32};
    auto arenas = tensor::ArenaSet::measure(), apart = tensor::ArenaSet::measure();
    const UnitBuffers buffers(units, options, arenas);
    const UnitBuffers own(tests::small_units(), options, apart);
    EXPECT_EQ(arenas[MemoryKind::gathered].used(),
              2 * layer + (accumulate ? embedding + root : std::max(embedding, root)));
    EXPECT_EQ(buffers.gather().own_slot(kEmbedding) == buffers.gather().own_slot(kRoot), !accumulate);
    EXPECT_EQ(buffers.gather().rotating_slots(), 2);
    EXPECT_EQ(buffers.gradients().own_slot(kRoot) < 0, !accumulate);
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
    return padded_block(rows * cols, 2) + padded_block(padded * cols, 4);
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
    EXPECT_FALSE(buffers.reduces(u));
    const auto& gathered = buffers.gather().place(buffers.gather().own_slot(u), u).read;
    const auto& gradients = buffers.gradients().place(buffers.gradients().own_slot(u), u);
    for (std::size_t p = 0; p < buffers.weights(u).size(); ++p) {
      EXPECT_EQ(gathered[p].forward.data.data, buffers.weights(u)[p].master.data);
      EXPECT_EQ(gradients.whole[p].data, buffers.weights(u)[p].gradient.data);
    }
  }
}

// With one micro-batch there is memory for the unsharded gradients of two layers, with several for those of all layers.
TEST(UnitBuffers, UnshardedGradients) {
  const std::size_t shards = padded_block(3 * 6, 4) +
                             kLayers * (padded_block(2, 4) + padded_block(4 * 6, 4) + padded_block(1 * 9, 4)) +
                             padded_block(1, 4) + padded_block(3 * 6, 4);
  const std::size_t layer = padded_block(8, 4) + padded_block(16 * 6, 4) + padded_block(4 * 9, 4);
  const std::size_t others = padded_block(12 * 6, 4) + padded_block(4, 4) + padded_block(12 * 6, 4);
  auto arenas = tensor::ArenaSet::measure();
  Options options{tests::first_of(4), 1, true, false, DType::fp32, DType::fp32, DType::fp32};
  const UnitBuffers buffers(tests::small_units(), options, arenas);
  EXPECT_EQ(arenas[MemoryKind::gradients].high_water(), shards + 2 * layer + others);
  options.accumulate = true;
  auto accumulating = tensor::ArenaSet::measure();
  const UnitBuffers all(tests::small_units(), options, accumulating);
  EXPECT_EQ(accumulating[MemoryKind::gradients].high_water(), shards + kLayers * layer + others);
}

// With sums in shards the gradients of two layers are unsharded at a time, as with one micro-batch. Each slot also has
// memory for the shards that a later reduction brings.
TEST(UnitBuffers, SumsInShards) {
  const std::size_t layer = padded_block(8, 4) + padded_block(16 * 6, 4) + padded_block(4 * 9, 4);
  const std::size_t layer_shards = padded_block(2, 4) + padded_block(4 * 6, 4) + padded_block(1 * 9, 4);
  const std::size_t others = padded_block(3 * 6, 4) + padded_block(1, 4) + padded_block(3 * 6, 4);
  Options options{tests::first_of(4), 1, true, true, DType::fp32, DType::fp32, DType::fp32};
  auto full = tensor::ArenaSet::measure();
  const UnitBuffers whole(tests::small_units(), options, full);
  EXPECT_FALSE(whole.reduces_each(1));
  options.sharded_sums = true;
  auto arenas = tensor::ArenaSet::measure();
  const UnitBuffers buffers(tests::small_units(), options, arenas);
  EXPECT_TRUE(buffers.reduces_each(1));
  EXPECT_EQ(buffers.gradients().rotating_slots(), 2);
  EXPECT_EQ(full[MemoryKind::gradients].used() - arenas[MemoryKind::gradients].used(),
            (kLayers - 2) * layer - 2 * layer_shards - others);
  for (int u = 0; u < kLayers + 2; ++u)
    for (std::size_t p = 0; p < buffers.weights(u).size(); ++p)
      EXPECT_NE(buffers.gradients().place(buffers.gradients().first_slot(u), u).received[p].data,
                buffers.weights(u)[p].gradient.data);
  // With one shard gradients are summed in the gradient shards, and with one micro-batch nothing is summed.
  for (Options other : {Options{}, options}) {
    other.sharded_sums = true;
    other.accumulate = other.place.mesh() != options.place.mesh();
    auto memory = tensor::ArenaSet::measure(), without = tensor::ArenaSet::measure();
    EXPECT_FALSE(UnitBuffers(tests::small_units(), other, memory).reduces_each(1));
    other.sharded_sums = false;
    EXPECT_FALSE(UnitBuffers(tests::small_units(), other, without).reduces_each(1));
    EXPECT_EQ(memory.bytes(), without.bytes());
  }
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
  EXPECT_EQ(buffers.gradients().place(1, 1).whole[1].shape, (tensor::Shape{16, 6}));
  EXPECT_EQ(buffers.gradients().place(1, 2).whole[1].shape, (tensor::Shape{32, 6}));
  EXPECT_EQ(buffers.gather().place(1, 2).communicated[1].forward.data.shape, (tensor::Shape{32, 6}));
  const auto two_buffers = 2 * (padded_block(32 * 6, 4) - padded_block(16 * 6, 4));
  EXPECT_EQ(arenas[MemoryKind::gathered].high_water() - equal[MemoryKind::gathered].high_water(), two_buffers);
  EXPECT_EQ(arenas[MemoryKind::gradients].high_water() - equal[MemoryKind::gradients].high_water(),
            two_buffers + padded_block(8 * 6, 4) - padded_block(4 * 6, 4));
}

// The memory lent for unit 1 is as large as its gradient shards; the memory lent for unit 2 is a byte too small.
TEST(UnitBuffers, GradientShardsLieInLentMemoryIfTheyFit) {
  const auto units = tests::small_units();
  const auto needed = padded_block(2 * 1, 4) + padded_block(4 * 6, 4) + padded_block(1 * 9, 4);
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
    EXPECT_EQ(buffers.weights(1).front().gradient.data == lent[1].data, shards == 4);
    if (shards == 4) {
      EXPECT_LE(buffers.weights(1).back().gradient.data + buffers.weights(1).back().gradient.bytes(),
                lent[1].data + needed);
    }
    for (std::size_t p = 0; p < units[1].parameters.size(); ++p)
      EXPECT_EQ(buffers.weights(1)[p].gradient.shape, plain.weights(1)[p].gradient.shape);
    EXPECT_NE(buffers.weights(2).front().gradient.data, lent[2].data);
    EXPECT_NE(buffers.weights(kEmbedding).front().gradient.data, nullptr);
  }
}

// Sums in shards are read and written while the lender still uses the memory.
TEST(UnitBuffers, SumsOfMicroBatchesDoNotLieInLentMemory) {
  auto lender = tensor::Arena("lent", MemoryKind::activations, 1 << 16);
  const std::vector<tensor::Tensor> lent(3, lender.allocate({1 << 16}, DType::u8));
  const auto lies_in_lent = [&](const UnitBuffers& buffers) {
    const std::byte* const data = buffers.weights(1).front().gradient.data;
    return data >= lent[1].data && data < lent[1].data + lent[1].bytes();
  };
  for (const bool accumulate : {false, true}) {
    for (const bool sharded_sums : {false, true}) {
      Options options{tests::first_of(4), 1, true, accumulate, DType::fp32, DType::fp32, DType::fp32};
      options.sharded_sums = sharded_sums;
      auto measured = tensor::ArenaSet::measure();
      const UnitBuffers planned(tests::small_units(), options, measured, lent);
      tensor::ArenaSet arenas(measured.bytes());
      const UnitBuffers buffers(tests::small_units(), options, arenas, lent);
      EXPECT_EQ(lies_in_lent(buffers), !(accumulate && sharded_sums));
    }
  }
}

TEST(UnitBuffers, ShapesOfShards) {
  auto arenas = tensor::ArenaSet::measure();
  const UnitBuffers buffers(tests::small_units(),
                            {tests::first_of(4), 1, true, false, DType::bf16, DType::bf16, DType::fp32}, arenas);
  EXPECT_EQ(buffers.weights(kEmbedding)[0].master.shape, (tensor::Shape{3, 6}));
  EXPECT_EQ(buffers.weights(1)[1].master.shape, (tensor::Shape{4, 6}));
  EXPECT_EQ(buffers.weights(1)[2].master.shape, (tensor::Shape{1, 9}));
  const auto& place = buffers.gather().place(0, 1);
  EXPECT_EQ(place.communicated[1].forward.data.shape, (tensor::Shape{16, 6}));
  EXPECT_EQ(place.read[1].forward.data.shape, (tensor::Shape{13, 6}));
  EXPECT_EQ(place.read[0].forward.data.shape, (tensor::Shape{7}));
  EXPECT_EQ(place.read[1].forward.data.dtype, DType::bf16);
  EXPECT_EQ(buffers.weights(1)[1].master.dtype, DType::fp32);
  EXPECT_EQ(buffers.gather().own_slot(1), -1);
  EXPECT_GE(buffers.gather().own_slot(kRoot), buffers.gather().rotating_slots());
}

TEST(UnitBuffers, EveryCommunicatedCopyHasAStoredShard) {
  auto arenas = tensor::ArenaSet::measure();
  const UnitBuffers buffers(tests::format_units(true),
                            {tests::first_of(4), 1, true, false, DType::bf16, DType::bf16, DType::fp32}, arenas);
  const auto& weights = buffers.weights(2);
  ASSERT_EQ(weights.size(), 5u);
  EXPECT_TRUE(weights[0].stored.empty()) << "a norm";
  EXPECT_FALSE(weights[1].stored.two()) << "one copy";
  EXPECT_EQ(weights[1].stored.forward.data.shape, (tensor::Shape{32, 32}));
  EXPECT_EQ(weights[1].stored.forward.data.dtype, DType::e4m3);
  EXPECT_EQ(weights[1].stored.forward.scale_inv.shape, (tensor::Shape{1, 32}));
  ASSERT_TRUE(weights[2].stored.two());
  EXPECT_EQ(weights[2].stored.forward.scale_inv.shape, (tensor::Shape{32, 1}));
  EXPECT_EQ(weights[2].stored.backward.scale_inv.shape, (tensor::Shape{1, 32}));
  EXPECT_EQ(weights[2].stored.backward.scale_inv.dtype, DType::e8m0);
  EXPECT_TRUE(weights[3].stored.empty() && weights[4].stored.empty()) << "cast after the gather";
  // A copy takes 1,024 bytes of elements and a block of scales: three copies in a layer, and two of the head.
  auto without = tensor::ArenaSet::measure();
  const UnitBuffers plain(tests::format_units(false), buffers.options(), without);
  EXPECT_EQ(arenas[MemoryKind::weights].high_water() - without[MemoryKind::weights].high_water(),
            (1024u + 256u) * ((kLayers - 1) * 3 + 2));
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
        const auto& gather = buffers.gather();
        const auto& place = gather.place(std::max(0, gather.own_slot(u)), u);
        for (std::size_t p = 0; p < buffers.weights(u).size(); ++p) {
          EXPECT_EQ(buffers.weights(u)[p].master.dtype, DType::bf16);
          EXPECT_EQ(buffers.weights(u)[p].remainder.dtype, DType::i16);
          EXPECT_EQ(buffers.weights(u)[p].remainder.shape, buffers.weights(u)[p].master.shape);
          EXPECT_NE(buffers.weights(u)[p].remainder.data, buffers.weights(u)[p].master.data);
          EXPECT_EQ(place.read[p].forward.data.data == buffers.weights(u)[p].master.data, alias);
        }
      }
    }
  }
  auto arenas = tensor::ArenaSet::measure();
  const UnitBuffers fp32(tests::small_units(), Options{}, arenas);
  for (const auto& w : fp32.weights(1)) EXPECT_EQ(w.remainder.count(), 0);
}

}  // namespace
}  // namespace shard8
