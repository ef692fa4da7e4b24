// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "fsdp/unit_buffers.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/fsdp/units.hpp"

namespace shard8 {
namespace {

using fsdp::Options;
using fsdp::Pass;
using fsdp::UnitBuffers;
using tensor::DType;
using tensor::MemoryKind;
using tests::kEmbedding;
using tests::kLayers;
using tests::kRoot;

Options options_of(int shards, int prefetch, bool reshard) {
  return {tests::first_of(shards), prefetch, reshard, false, DType::bf16, DType::bf16, DType::fp32};
}

/// UnitBuffers with arenas of their own.
struct Allocated {
  Allocated(const std::vector<fsdp::UnitShape>& units, const Options& options)
      : arenas(measured(units, options)), buffers(units, options, arenas) {}
  static tensor::MemoryBytes measured(const std::vector<fsdp::UnitShape>& units, const Options& options) {
    auto arenas = tensor::ArenaSet::measure();
    const UnitBuffers planned(units, options, arenas);
    return arenas.bytes();
  }
  std::size_t gathered() { return arenas[MemoryKind::gathered].high_water(); }

  tensor::ArenaSet arenas;
  UnitBuffers buffers;
};

TEST(GatherSlots, CopiesOfUnits) {
  const Allocated rotating(tests::format_units(true), options_of(4, 1, true));
  const auto& gather = rotating.buffers.gather();
  EXPECT_EQ(gather.copies(), kLayers + 2 + kLayers - 1) << "all layers but the first have two copies";
  for (int u = kEmbedding; u <= kRoot; ++u) {
    const bool two = u > 1 && u <= kLayers;
    const int backward = gather.copy_of(u, Pass::backward);
    EXPECT_EQ(gather.copy_of(u, Pass::forward), u);
    EXPECT_EQ(backward != u, two);
    EXPECT_EQ(gather.unit_of(u), u);
    EXPECT_EQ(gather.unit_of(backward), u);
    EXPECT_EQ(gather.own_slot(u), gather.own_slot(backward));
    EXPECT_EQ(gather.own_slot(u) < 0, u >= 1 && u <= kLayers);
  }
  const Allocated gathered_once(tests::format_units(true), options_of(4, 1, false));
  EXPECT_EQ(gathered_once.buffers.gather().copies(), kLayers + 2);
  EXPECT_EQ(gathered_once.buffers.gather().rotating_slots(), 0);
  for (int u = kEmbedding; u <= kRoot; ++u) EXPECT_EQ(gathered_once.buffers.gather().copy_of(u, Pass::backward), u);
}

TEST(GatherSlots, BackwardHasBothCopiesIfItRecomputes) {
  auto units = tests::format_units(true);
  const auto copy_of_backward = [&](bool both) {
    units[2].backward_reads_both = both;
    const Allocated laid(units, options_of(4, 1, true));
    const auto& gather = laid.buffers.gather();
    EXPECT_NE(gather.copy_of(2, Pass::backward), 2);
    return gather.first_place(gather.copy_of(2, Pass::backward));
  };
  const auto one = copy_of_backward(false), both = copy_of_backward(true);
  int read_in_forward = 0;
  for (std::size_t p = 0; p < both.read.size(); ++p) {
    EXPECT_FALSE(both.read[p].forward.empty());
    EXPECT_FALSE(both.read[p].backward.empty());
    read_in_forward += one.read[p].forward.empty() ? 1 : 0;
  }
  EXPECT_GT(read_in_forward, 0);
  EXPECT_GT(both.transferred.size(), one.transferred.size());
}

/// The bytes that a tensor takes in an arena.
std::size_t block(std::int64_t elements, std::size_t size) {
  return (static_cast<std::size_t>(elements) * size + 255) / 256 * 256;
}

// Counted by hand for 4 shards. With padding the 7 rows of a norm are 8, 96 rows are 96 in the first layer and 128 in
// the others. Converted copies have no padding. There are scales for 1x32 or 32x1 elements, of a byte.
TEST(GatherSlots, RotatingSlotsAreAsLargeAsTheLargestCopy) {
  const std::size_t norm = block(8, 2);
  const std::size_t first = norm + 3 * block(96 * 32, 2) + block(96 * 64, 2);
  const std::size_t columnwise = block(128 * 32, 1) + block(4 * 32, 1), rowwise = block(128 * 32, 1) + block(128, 1);
  const std::size_t fc2_rows = block(96 * 64, 1), fc2_columns = block(96 * 64, 1) + block(3 * 64, 1);
  const std::size_t proj = block(128 * 32, 2) + block(96 * 32, 1) + block(3 * 32, 1);
  const std::size_t common = norm + columnwise + block(128 * 64, 2) + proj;
  const std::size_t forward = common + rowwise + fc2_rows, backward = common + columnwise + fc2_columns;
  const std::size_t both = common + rowwise + columnwise + fc2_rows + fc2_columns;
  const std::size_t embedding = block(12 * 6, 2), root = block(4, 2) + rowwise + columnwise;
  const std::size_t layer = std::max({first, forward, backward});
  for (const bool stored : {false, true}) {
    for (const std::size_t prefetch : {0u, 1u, 3u, 20u}) {
      const std::size_t slots = std::min<std::size_t>(prefetch + 1, 1 + 2 * (kLayers - 1));
      Allocated laid(tests::format_units(stored), options_of(4, static_cast<int>(prefetch), true));
      EXPECT_EQ(laid.buffers.gather().rotating_slots(), static_cast<int>(slots));
      EXPECT_EQ(laid.gathered(), slots * layer + embedding + root) << "prefetch " << prefetch;
    }
    Allocated gathered_once(tests::format_units(stored), options_of(4, 1, false));
    EXPECT_EQ(gathered_once.gathered(), first + (kLayers - 1) * both + embedding + root);
  }
}

// On one shard stored shards take no memory. Norms, plain rows and converted copies do.
TEST(GatherSlots, StoredShardsOfOneShardTakeNoMemory) {
  const std::size_t norm = block(7, 2), proj = block(96 * 32, 2) + block(96 * 32, 1) + block(3 * 32, 1);
  const std::size_t first = norm + 3 * block(96 * 32, 2) + block(96 * 64, 2);
  const std::size_t common = norm + block(96 * 64, 2) + block(96 * 64, 1) + proj;
  const std::size_t forward = common, backward = common + block(3 * 64, 1);
  const std::size_t embedding = block(11 * 6, 2), root = block(1, 2);
  Allocated laid(tests::format_units(true), options_of(1, 1, true));
  EXPECT_EQ(laid.gathered(), 2 * std::max({first, forward, backward}) + embedding + root);
}

TEST(GatherSlots, CopiesLieWithinTheirSlot) {
  const Allocated laid(tests::format_units(false), options_of(4, 2, true));
  const auto& gather = laid.buffers.gather();
  std::vector<std::pair<std::byte*, std::byte*>> ranges;
  for (int s = 0; s < gather.slots(); ++s) {
    std::byte *begin = nullptr, *end = nullptr;
    for (int c = 0; c < gather.copies(); ++c) {
      if (gather.own_slot(c) != (s < gather.rotating_slots() ? -1 : s)) continue;
      std::byte* copy_end = nullptr;
      const auto& place = gather.place(s, c);
      for (std::size_t p = 0; p < place.communicated.size(); ++p) {
        const bool converted = laid.buffers.weights(gather.unit_of(c))[p].converted();
        const auto add = [&](const tensor::Tensor& t) {
          EXPECT_GE(t.data, copy_end) << "tensors of a copy do not overlap";
          copy_end = t.data + t.bytes();
          if (begin == nullptr) begin = t.data;
        };
        place.communicated[p].for_each_tensor(add);
        if (converted) place.read[p].for_each_tensor(add);
      }
      end = std::max(end, copy_end);
    }
    ranges.emplace_back(begin, end);
  }
  for (std::size_t s = 1; s < ranges.size(); ++s) EXPECT_LE(ranges[s - 1].second, ranges[s].first);
}

// With compute in fp32 on one shard kernels read the masters of norms and the stored shards.
TEST(GatherSlots, ShardsUsedInPlaceAreNotGathered) {
  auto units = tests::format_units(true);
  for (int l = 1; l <= kLayers; ++l) units[static_cast<std::size_t>(l)].parameters.resize(3);
  Options options = options_of(1, 1, true);
  options.compute = options.gather = DType::fp32;
  Allocated laid(units, options);
  EXPECT_EQ(laid.gathered(), 0u);
  const auto& gather = laid.buffers.gather();
  EXPECT_EQ(gather.rotating_slots(), 0);
  for (int u = kEmbedding; u <= kRoot; ++u) {
    const auto& place = gather.place(gather.own_slot(u), u);
    EXPECT_TRUE(place.transferred.empty());
    const auto& weights = laid.buffers.weights(u);
    for (std::size_t p = 0; p < weights.size(); ++p) {
      EXPECT_FALSE(weights[p].gathers());
      const fsdp::Copies kept =
          weights[p].stored.empty() ? fsdp::Copies{weights[p].master, weights[p].master} : weights[p].stored;
      EXPECT_EQ(place.read[p].forward.data.data, kept.forward.data.data);
      EXPECT_EQ(place.read[p].backward.data.data, kept.backward.data.data);
      EXPECT_EQ(place.read[p].forward.scale_inv.data, kept.forward.scale_inv.data);
      EXPECT_EQ(place.read[p].backward.scale_inv.data, kept.backward.scale_inv.data);
      EXPECT_EQ(place.read[p].two(), weights[p].read.two());
    }
  }
}

}  // namespace
}  // namespace shard8
