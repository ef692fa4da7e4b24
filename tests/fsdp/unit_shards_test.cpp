// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "fsdp/unit_shards.hpp"

#include <gtest/gtest.h>

#include <string>

#include "base/error.hpp"

namespace shard8 {
namespace {

using fsdp::Copies;
using fsdp::Options;
using fsdp::ParameterShape;
using fsdp::Piece;
using fsdp::resolve;
using fsdp::ShardLayout;
using fsdp::Source;
using tensor::DType;

/// The rows that each rank owns.
std::string owned(const ShardLayout& layout) {
  std::string text;
  for (int rank = 0; rank < layout.shards; ++rank)
    text += (rank == 0 ? "" : " ") + std::to_string(layout.owned_rows(rank));
  return text;
}

TEST(ShardLayout, EqualShortAndEmptyShards) {
  EXPECT_EQ(owned(ShardLayout::make(12, 4)), "3 3 3 3");
  EXPECT_EQ(owned(ShardLayout::make(10, 4)), "3 3 3 1");
  EXPECT_EQ(owned(ShardLayout::make(9, 4)), "3 3 3 0");
  EXPECT_EQ(owned(ShardLayout::make(5, 4)), "2 2 1 0");
  EXPECT_EQ(owned(ShardLayout::make(1, 4)), "1 0 0 0");
  EXPECT_EQ(owned(ShardLayout::make(0, 3)), "0 0 0");
  EXPECT_EQ(owned(ShardLayout::make(7, 1)), "7");
}

TEST(ShardLayout, GranularityRoundsRowsOfAShardUp) {
  const auto layout = ShardLayout::make(300, 4, 32);  // ceil(300/4) = 75 -> 96
  EXPECT_EQ(layout.rows_per_shard, 96);
  EXPECT_EQ(layout.padded_rows(), 384);
  EXPECT_EQ(owned(layout), "96 96 96 12");
  EXPECT_EQ(owned(ShardLayout::make(100, 4, 128)), "100 0 0 0");
  EXPECT_EQ(owned(ShardLayout::make(256, 2, 128)), "128 128");
}

TEST(ShardLayout, EveryRowIsOwnedOnce) {
  for (std::int64_t rows = 0; rows < 70; ++rows) {
    for (int shards = 1; shards < 9; ++shards) {
      for (const std::int64_t granularity : {1, 4, 32}) {
        const auto layout = ShardLayout::make(rows, shards, granularity);
        ASSERT_EQ(layout.rows_per_shard % granularity, 0);
        ASSERT_LT(layout.rows_per_shard, (rows + shards - 1) / shards + granularity);
        std::int64_t next = 0;
        for (int rank = 0; rank < shards; ++rank) {
          ASSERT_EQ(layout.first_row(rank), rank * layout.rows_per_shard);
          if (layout.owned_rows(rank) > 0) {
            ASSERT_EQ(layout.first_row(rank), next);
          }
          next += layout.owned_rows(rank);
        }
        ASSERT_EQ(next, rows) << "over " << shards << " shards, granularity " << granularity;
      }
    }
  }
}

Options options_of(int shards, DType compute, DType gather, bool remainder = false) {
  Options options;
  options.place = base::Place({1, shards, 1}, 0);
  options.compute = compute;
  options.gather = gather;
  options.master_remainder = remainder;
  return options;
}

const Copies kRowsFp32{{Piece{DType::fp32, 1, 6}}, {}};
const Copies kRowsBf16{{Piece{DType::bf16, 1, 6}}, {}};
const Copies kTiles{{Piece{DType::e4m3, 1, 6}, Piece{DType::fp32, 4, 2}}, {}};
const Copies kTwo{{Piece{DType::e4m3, 1, 6}}, {Piece{DType::e4m3, 1, 6}, Piece{DType::e8m0, 4, 6}}};

ParameterShape parameter(const Copies& travel = {}, const Copies& compute = {}, bool stored = false) {
  return {"fc1", 12, 6, 4, true, false, travel, compute, stored};
}

TEST(Pieces, PlainRowsByDefault) {
  const auto mixed = resolve(parameter(), options_of(4, DType::bf16, DType::fp32));
  EXPECT_EQ(mixed.travel, kRowsFp32);
  EXPECT_EQ(mixed.compute, kRowsBf16);
  EXPECT_EQ(mixed.source, Source::hook);
  EXPECT_TRUE(mixed.converted());
  EXPECT_FALSE(mixed.two());
  EXPECT_FALSE(resolve(parameter(), options_of(4, DType::bf16, DType::bf16)).converted());
}

TEST(Pieces, OneShardIsUsedInPlaceIfPossible) {
  // Compute in fp32 reads the fp32 master. For compute in bf16 the hook writes bf16 into the gather buffer.
  const auto master = resolve(parameter(), options_of(1, DType::fp32, DType::bf16));
  EXPECT_EQ(master.source, Source::in_place);
  EXPECT_FALSE(master.gathers());
  const auto cast = resolve(parameter(), options_of(1, DType::bf16, DType::fp32));
  EXPECT_EQ(cast.travel, kRowsBf16);
  EXPECT_EQ(cast.source, Source::hook);
  EXPECT_FALSE(cast.converted());
  EXPECT_TRUE(cast.gathers());
  // Compute in bf16 reads a bf16 master. For compute in fp32 the hook writes fp32.
  EXPECT_FALSE(resolve(parameter(), options_of(1, DType::bf16, DType::bf16, true)).gathers());
  EXPECT_TRUE(resolve(parameter(), options_of(1, DType::fp32, DType::fp32, true)).gathers());
  // Several shards are never used in place.
  EXPECT_EQ(resolve(parameter(), options_of(2, DType::fp32, DType::fp32)).source, Source::hook);
}

TEST(Pieces, GivenPiecesReplaceTheDefaults) {
  const auto options = options_of(2, DType::bf16, DType::bf16);
  const auto travels = resolve(parameter(kTwo), options);
  EXPECT_EQ(travels.travel, kTwo);
  EXPECT_EQ(travels.compute, kTwo);
  EXPECT_TRUE(travels.two());
  const auto made = resolve(parameter({}, kTwo), options);
  EXPECT_EQ(made.travel, kRowsBf16);
  EXPECT_EQ(made.compute, kTwo);
  EXPECT_TRUE(made.converted());
}

TEST(Pieces, StoredPiecesAreCopiedOrUsedInPlace) {
  EXPECT_EQ(resolve(parameter(kTiles, {}, true), options_of(2, DType::bf16, DType::bf16)).source, Source::stored);
  const auto alone = resolve(parameter(kTiles, {}, true), options_of(1, DType::bf16, DType::bf16));
  EXPECT_EQ(alone.source, Source::in_place);
  EXPECT_FALSE(alone.gathers());
  EXPECT_TRUE(resolve(parameter(kTiles, kRowsBf16, true), options_of(1, DType::bf16, DType::bf16)).gathers());
  EXPECT_EQ(resolve(parameter(kTiles), options_of(1, DType::bf16, DType::bf16)).source, Source::hook);
}

std::string error_of(const ParameterShape& shape) {
  try {
    resolve(shape, options_of(2, DType::bf16, DType::bf16));
  } catch (const base::Error& e) {
    return e.what();
  }
  return "";
}

TEST(Pieces, BrokenRulesAreErrors) {
  ParameterShape shape = parameter(kTiles);
  shape.rows = 14;
  EXPECT_NE(error_of(shape).find("parameter 'fc1': 14 rows are not whole blocks of 4 rows (14 % 4 = 2)"),
            std::string::npos);
  shape = parameter({}, kTiles);
  shape.granularity = 6;
  EXPECT_NE(error_of(shape).find("multiples of 6 rows would cut blocks of 4 rows (6 % 4 = 2)"), std::string::npos);
  EXPECT_NE(error_of(parameter(kTwo, kRowsBf16)).find("travels in two copies"), std::string::npos);
  EXPECT_NE(error_of(parameter({}, {}, true)).find("no pieces are given to be stored"), std::string::npos);
  EXPECT_EQ(error_of(parameter(kTwo, kTwo, true)), "");
}

}  // namespace
}  // namespace shard8
