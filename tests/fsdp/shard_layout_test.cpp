// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "fsdp/shard_layout.hpp"

#include <gtest/gtest.h>

#include <string>

namespace shard8 {
namespace {

using fsdp::ShardLayout;

/// Rows that each rank owns.
std::string owned(const ShardLayout& layout) {
  std::string text;
  for (int rank = 0; rank < layout.shards; ++rank)
    text += (rank == 0 ? "" : " ") + std::to_string(layout.owned_rows(rank));
  return text;
}

TEST(ShardLayout, EvenShortAndEmptyShards) {
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

}  // namespace
}  // namespace shard8
