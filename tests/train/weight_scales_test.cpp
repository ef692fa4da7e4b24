// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "train/stored_weights.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>
#include <random>

namespace shard8 {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(WeightScales, NarrowBlocks) {
  const auto exponent = [](float amax) { return train::narrow_block(train::magnitude(amax)).inverse; };
  EXPECT_EQ(exponent(448.0f), 127u);
  EXPECT_EQ(exponent(std::nextafter(448.0f, kInfinity)), 128u);
  EXPECT_EQ(exponent(-224.0f), 126u);
  EXPECT_EQ(exponent(225.0f), 127u);
  EXPECT_EQ(exponent(0.0f), 0u);
  EXPECT_EQ(exponent(448.0f * 0x1p-127f), 0u);
  EXPECT_EQ(exponent(449.0f * 0x1p-127f), 1u);
  EXPECT_EQ(exponent(FLT_MIN), 0u);
  EXPECT_EQ(exponent(FLT_MAX), 127u + 120u);  // 2^128/448 is below 2^120
  EXPECT_EQ(exponent(kInfinity), 254u);
  EXPECT_EQ(exponent(std::nanf("")), 255u);
  for (const float amax : {448.0f, 3.0f, 1e-30f, FLT_MAX}) {
    const auto block = train::narrow_block(train::magnitude(amax));
    EXPECT_EQ(block.factor, std::ldexp(1.0f, 127 - static_cast<int>(block.inverse))) << amax;
    EXPECT_LE(amax * block.factor, 448.0f);
    EXPECT_GT(amax * block.factor, 224.0f);
  }
}

TEST(WeightScales, WideBlocksAndMatrices) {
  EXPECT_EQ(train::wide_block(train::magnitude(448.0f), false).factor, 1.0f);
  EXPECT_EQ(train::wide_block(train::magnitude(3.0f), false).factor, 448.0f / 3.0f);
  EXPECT_EQ(train::wide_block(train::magnitude(3.0f), true).factor, 128.0f);
  EXPECT_EQ(train::wide_block(train::magnitude(3.0f), true).inverse, std::bit_cast<std::uint32_t>(0x1p-7f));
  for (const float none : {0.0f, kInfinity, std::nanf("")}) {
    EXPECT_EQ(train::wide_block(train::magnitude(none), true).factor, 1.0f);
    EXPECT_FALSE(train::scale_of(train::magnitude(none), {448.0f, 0, false}).has_value());
  }
  EXPECT_EQ(train::scale_of(train::magnitude(1e-44f), {448.0f, 0, false}), FLT_MAX);
  EXPECT_EQ(train::scale_of(train::magnitude(1e-44f), {448.0f, 0, true}), 0x1p127f);
  EXPECT_EQ(train::scale_of(train::magnitude(-2.0f), {448.0f, 3, false}), 28.0f);
}

TEST(WeightScales, AScaleIsAmongThoseOfItsInverse) {
  std::mt19937 random(7);
  std::size_t most = 0;
  for (int i = 0; i < 100000; ++i) {
    const float scale =
        std::ldexp(1.0f + static_cast<float>(random() >> 9) * 0x1p-23f, static_cast<int>(random() % 200) - 100);
    const auto scales = train::scales_with_inverse(1.0f / scale);
    ASSERT_NE(std::find(scales.begin(), scales.end(), scale), scales.end()) << scale;
    for (const float other : scales) ASSERT_EQ(1.0f / other, 1.0f / scale);
    most = std::max(most, scales.size());
  }
  EXPECT_LE(most, 4u);
  EXPECT_TRUE(train::scales_with_inverse(-1.0f).empty());
  EXPECT_TRUE(train::scales_with_inverse(std::nanf("")).empty());
}

}  // namespace
}  // namespace shard8
