// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "fsdp/gather_buffers.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "fsdp/unit_buffers.hpp"
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

TEST(GatherBuffers, CopiesOfUnits) {
  const Allocated rotating(tests::piece_units(true), options_of(4, 1, true));
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
  const Allocated gathered_once(tests::piece_units(true), options_of(4, 1, false));
  EXPECT_EQ(gathered_once.buffers.gather().copies(), kLayers + 2);
  EXPECT_EQ(gathered_once.buffers.gather().rotating_slots(), 0);
  for (int u = kEmbedding; u <= kRoot; ++u) EXPECT_EQ(gathered_once.buffers.gather().copy_of(u, Pass::backward), u);
}

// Counted by hand for 4 shards, in arena blocks of 256 bytes. With padding the 7 rows of a norm are 8, 12 rows are 12
// in the first layer and 16 in the others. Converted pieces have no padding. Each tensor takes one block; the plain
// rows (16, 10) of fc2 take two.
TEST(GatherBuffers, RotatingSlotsAreAsLargeAsTheLargestCopy) {
  constexpr std::size_t kBlock = 256;
  const std::size_t first = 5;
  const std::size_t forward = 1 + 2 + 2 + (2 + 1) + (2 + 1);
  const std::size_t backward = 1 + 2 + 2 + (2 + 2) + (2 + 1);
  const std::size_t both = 1 + 2 + 4 + (2 + 1 + 2) + (2 + 1);
  const std::size_t embedding = 1, root = 1 + 4;
  const std::size_t layer = std::max({first, forward, backward});
  for (const bool stored : {false, true}) {
    for (const std::size_t prefetch : {0u, 1u, 3u, 20u}) {
      const std::size_t slots = std::min<std::size_t>(prefetch + 1, 1 + 2 * (kLayers - 1));
      Allocated laid(tests::piece_units(stored), options_of(4, static_cast<int>(prefetch), true));
      EXPECT_EQ(laid.buffers.gather().rotating_slots(), static_cast<int>(slots));
      EXPECT_EQ(laid.gathered(), kBlock * (slots * layer + embedding + root)) << "prefetch " << prefetch;
    }
    Allocated gathered_once(tests::piece_units(stored), options_of(4, 1, false));
    EXPECT_EQ(gathered_once.gathered(), kBlock * (first + (kLayers - 1) * both + embedding + root));
  }
}

// On one shard stored pieces take no memory. Norms, plain rows and converted pieces do.
TEST(GatherBuffers, StoredPiecesOfOneShardTakeNoMemory) {
  constexpr std::size_t kBlock = 256;
  const std::size_t first = 5, forward = 1 + (1 + 1) + 1, backward = 1 + (1 + 2) + 1, embedding = 1, root = 1;
  Allocated laid(tests::piece_units(true), options_of(1, 1, true));
  EXPECT_EQ(laid.gathered(), kBlock * (2 * std::max({first, forward, backward}) + embedding + root));
}

TEST(GatherBuffers, CopiesLieWithinTheirSlot) {
  const Allocated laid(tests::piece_units(false), options_of(4, 2, true));
  const auto& gather = laid.buffers.gather();
  std::vector<std::pair<std::byte*, std::byte*>> ranges;
  for (int s = 0; s < gather.slots(); ++s) {
    std::byte *begin = nullptr, *end = nullptr;
    for (int c = 0; c < gather.copies(); ++c) {
      if (gather.own_slot(c) != (s < gather.rotating_slots() ? -1 : s)) continue;
      std::byte* copy_end = nullptr;
      const auto& place = gather.place(s, c);
      for (const auto& [travel, compute] : place.parameters) {
        for (const auto* tensors : {&travel.forward, &travel.backward}) {
          for (const auto& t : *tensors) {
            EXPECT_GE(t.data, copy_end) << "tensors of a copy do not overlap";
            copy_end = t.data + t.bytes();
            if (begin == nullptr) begin = t.data;
          }
        }
        for (const auto* tensors : {&compute.forward, &compute.backward})
          for (const auto& t : *tensors) copy_end = std::max(copy_end, t.data + t.bytes());
      }
      end = std::max(end, copy_end);
    }
    ranges.emplace_back(begin, end);
  }
  for (std::size_t s = 1; s < ranges.size(); ++s) EXPECT_LE(ranges[s - 1].second, ranges[s].first);
}

// With compute in fp32 on one shard kernels read the masters of norms and the stored pieces.
TEST(GatherBuffers, ShardsUsedInPlaceAreNotGathered) {
  auto units = tests::piece_units(true);
  for (auto& unit : units) std::erase_if(unit.parameters, [](const auto& p) { return !p.compute.empty(); });
  for (int l = 1; l <= kLayers; ++l) units[static_cast<std::size_t>(l)].parameters.resize(3);
  Options options = options_of(1, 1, true);
  options.compute = options.gather = DType::fp32;
  Allocated laid(units, options);
  EXPECT_EQ(laid.gathered(), 0u);
  const auto& buffers = laid.buffers;
  EXPECT_EQ(buffers.gather().rotating_slots(), 0);
  for (int u = kEmbedding; u <= kRoot; ++u) {
    EXPECT_FALSE(buffers.gathers(u));
    const auto& place = buffers.gather().place(buffers.gather().own_slot(u), u);
    EXPECT_TRUE(place.travelling.empty());
    for (std::size_t p = 0; p < place.gathered.size(); ++p) {
      const auto& stored = buffers.stored(u)[p];
      const auto& forward = place.gathered[p].of(Pass::forward);
      const auto& backward = place.gathered[p].of(Pass::backward);
      if (stored.forward.empty()) {
        EXPECT_EQ(forward.at(0).data, buffers.master(u)[p].data);
        EXPECT_EQ(backward.at(0).data, buffers.master(u)[p].data);
        continue;
      }
      const auto& columns = stored.backward.empty() ? stored.forward : stored.backward;
      for (std::size_t i = 0; i < forward.size(); ++i) EXPECT_EQ(forward[i].data, stored.forward[i].data);
      for (std::size_t i = 0; i < backward.size(); ++i) EXPECT_EQ(backward[i].data, columns[i].data);
    }
  }
}

}  // namespace
}  // namespace shard8
