// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "fsdp/weight_forms.hpp"

#include <gtest/gtest.h>

#include <string>

#include "base/error.hpp"

namespace shard8 {
namespace {

using fsdp::Cast;
using fsdp::Formats;
using fsdp::Options;
using fsdp::ParameterShape;
using fsdp::ShardLayout;
using fsdp::Source;
using fsdp::WeightForms;
using tensor::DType;
using tensor::Scaling;

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

const Formats kFp32{{DType::fp32}, {DType::fp32}};
const Formats kBf16{{DType::bf16}, {DType::bf16}};
const Formats kOne{{DType::e4m3, Scaling::column_32}, {DType::e4m3, Scaling::column_32}};
const Formats kTwo{{DType::e4m3, Scaling::row_32}, {DType::e4m3, Scaling::column_32}};

ParameterShape parameter() { return {"fc1", 96, 64, 32, true, false}; }
ParameterShape parameter(const Formats& formats, Cast cast) { return {"fc1", 96, 64, 32, true, false, formats, cast}; }

WeightForms make(const ParameterShape& parameter, const Options& options) {
  auto arena = tensor::Arena::measure("weights", tensor::MemoryKind::weights);
  return WeightForms::make(parameter, options, arena);
}

TEST(WeightForms, PlainRowsByDefault) {
  const auto mixed = make(parameter(), options_of(4, DType::bf16, DType::fp32));
  EXPECT_EQ(mixed.communicated, kFp32);
  EXPECT_EQ(mixed.read, kBf16);
  EXPECT_EQ(mixed.source, Source::hook);
  EXPECT_TRUE(mixed.converted());
  EXPECT_FALSE(mixed.read.two());
  EXPECT_FALSE(make(parameter(), options_of(4, DType::bf16, DType::bf16)).converted());
}

TEST(WeightForms, OneShardIsUsedInPlaceIfPossible) {
  // Compute in fp32 reads the fp32 master. For compute in bf16 the hook writes bf16 into the slot.
  const auto master = make(parameter(), options_of(1, DType::fp32, DType::bf16));
  EXPECT_EQ(master.source, Source::in_place);
  EXPECT_FALSE(master.gathers());
  const auto cast = make(parameter(), options_of(1, DType::bf16, DType::fp32));
  EXPECT_EQ(cast.communicated, kBf16);
  EXPECT_EQ(cast.source, Source::hook);
  EXPECT_FALSE(cast.converted());
  EXPECT_TRUE(cast.gathers());
  // Compute in bf16 reads a bf16 master. For compute in fp32 the hook writes fp32.
  EXPECT_FALSE(make(parameter(), options_of(1, DType::bf16, DType::bf16, true)).gathers());
  EXPECT_TRUE(make(parameter(), options_of(1, DType::fp32, DType::fp32, true)).gathers());
  // Several shards are never used in place.
  EXPECT_EQ(make(parameter(), options_of(2, DType::fp32, DType::fp32)).source, Source::hook);
}

TEST(WeightForms, CastBeforeOrAfterTheGather) {
  const auto options = options_of(2, DType::bf16, DType::bf16);
  const auto before = make(parameter(kTwo, Cast::before_gather), options);
  EXPECT_EQ(before.communicated, kTwo);
  EXPECT_EQ(before.read, kTwo);
  EXPECT_EQ(before.source, Source::hook);
  EXPECT_TRUE(before.stored.empty());
  const auto after = make(parameter(kTwo, Cast::after_gather), options);
  EXPECT_EQ(after.communicated, kBf16);
  EXPECT_EQ(after.read, kTwo);
  EXPECT_TRUE(after.converted());
  // On one shard the master is cast at once, unless it is what would be communicated.
  EXPECT_EQ(make(parameter(kTwo, Cast::after_gather), options_of(1, DType::bf16, DType::fp32)).source,
            Source::in_place);
  EXPECT_EQ(make(parameter(kTwo, Cast::after_gather), options_of(1, DType::bf16, DType::bf16)).source, Source::hook);
}

TEST(WeightForms, StoredShardsAreCopiedOrUsedInPlace) {
  EXPECT_EQ(make(parameter(kOne, Cast::stored), options_of(2, DType::bf16, DType::bf16)).source, Source::stored);
  const auto alone = make(parameter(kOne, Cast::stored), options_of(1, DType::bf16, DType::bf16));
  EXPECT_EQ(alone.source, Source::in_place);
  EXPECT_FALSE(alone.gathers());
  EXPECT_EQ(make(parameter(kOne, Cast::before_gather), options_of(1, DType::bf16, DType::bf16)).source, Source::hook);
}

TEST(WeightForms, OneScaleOfAMatrixIsNotItsOwn) {
  float scale = 1;
  ParameterShape shape = parameter({{DType::e4m3, Scaling::tensor}, {DType::e4m3, Scaling::tensor}}, Cast::stored);
  shape.scale_inv = {reinterpret_cast<std::byte*>(&scale), {1}, DType::fp32};
  const auto weight = make(shape, options_of(2, DType::bf16, DType::bf16));
  EXPECT_EQ(weight.stored.forward.scale_inv.data, shape.scale_inv.data);
  int tensors = 0;
  weight.stored.for_each_tensor([&](const tensor::Tensor& t) {
    EXPECT_EQ(t.shape, (tensor::Shape{64, 64}));
    ++tensors;
  });
  EXPECT_EQ(tensors, 1) << "a gather transfers the elements alone";
}

std::string error_of(const ParameterShape& shape) {
  try {
    make(shape, options_of(2, DType::bf16, DType::bf16));
  } catch (const base::Error& e) {
    return e.what();
  }
  return "";
}

/// Six matrices of 16 rows over shards of 20, 32 or 96 rows, with padding behind the last one.
TEST(WeightForms, PartsOfAShardAreThoseOfItsMatrices) {
  ParameterShape p = parameter();
  p.granularity = 1;
  p.groups = 6;
  for (const int shards : {1, 3, 5}) {
    Options options = options_of(shards, DType::bf16, DType::bf16);
    std::vector<std::int64_t> rows_of_group(6);
    for (int rank = 0; rank < shards; ++rank) {
      options.place = base::Place({1, shards, 1}, rank);
      const WeightForms w = make(p, options);
      std::int64_t end = 0;
      for (const fsdp::GroupRows& part : w.groups) {
        EXPECT_EQ(part.first, end);
        EXPECT_EQ((w.first_row() + part.first) / 16, part.group);
        end += part.rows;
        rows_of_group[static_cast<std::size_t>(part.group)] += part.rows;
      }
      EXPECT_EQ(end, w.layout.rows_per_shard);
    }
    EXPECT_EQ(rows_of_group, (std::vector<std::int64_t>{16, 16, 16, 16, 16, shards == 5 ? 20 : 16}));
  }
  p.groups = 1;
  EXPECT_EQ(make(p, options_of(3, DType::bf16, DType::bf16)).groups.size(), 1U);
  // A shard of padding alone belongs to the last matrix.
  p.groups = 2;
  p.rows = 6;
  Options options = options_of(4, DType::bf16, DType::bf16);
  options.place = base::Place({1, 4, 1}, 3);
  const WeightForms empty = make(p, options);
  ASSERT_EQ(empty.groups.size(), 1U);
  EXPECT_EQ(empty.groups[0].group, 1);
  EXPECT_EQ(empty.groups[0].rows, 2);
}

TEST(WeightForms, BrokenRulesAreErrors) {
  ParameterShape shape = parameter(kTwo, Cast::before_gather);
  EXPECT_EQ(error_of(shape), "");
  shape.rows = 80;
  EXPECT_NE(error_of(shape).find("parameter 'fc1': 80 rows are not whole blocks of 32 rows (80 % 32 = 16)"),
            std::string::npos);
  shape = parameter(kOne, Cast::after_gather);
  shape.granularity = 48;
  EXPECT_NE(error_of(shape).find("multiples of 48 rows would cut blocks of 32 rows (48 % 32 = 16)"), std::string::npos);
}

}  // namespace
}  // namespace shard8
