// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "fsdp/pieces.hpp"

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
using fsdp::Source;
using tensor::DType;

Options options_of(int shards, DType compute, DType gather, bool remainder = false) {
  Options options;
  options.shards = shards;
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

TEST(Pieces, OneShardIsUsedInPlaceWhereItCanBe) {
  // fp32 compute: the master itself; bf16: written at once.
  const auto master = resolve(parameter(), options_of(1, DType::fp32, DType::bf16));
  EXPECT_EQ(master.source, Source::in_place);
  EXPECT_FALSE(master.gathers());
  const auto cast = resolve(parameter(), options_of(1, DType::bf16, DType::fp32));
  EXPECT_EQ(cast.travel, kRowsBf16);
  EXPECT_EQ(cast.source, Source::hook);
  EXPECT_FALSE(cast.converted());
  EXPECT_TRUE(cast.gathers());
  // A bf16 master with a remainder the other way round.
  EXPECT_FALSE(resolve(parameter(), options_of(1, DType::bf16, DType::bf16, true)).gathers());
  EXPECT_TRUE(resolve(parameter(), options_of(1, DType::fp32, DType::fp32, true)).gathers());
  // With more shards never.
  EXPECT_EQ(resolve(parameter(), options_of(2, DType::fp32, DType::fp32)).source, Source::hook);
}

TEST(Pieces, GivenAreTaken) {
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

TEST(Pieces, StoredAreCopiedOrUsedInPlace) {
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

TEST(Pieces, WhatCannotBeCutIsAnError) {
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
