// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "tensor/tensor.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace shard8::tensor {
namespace {

std::uint16_t bits_of(float x) { return BFloat16(x).bits; }

TEST(Bfloat16, EveryPatternSurvivesTheRoundTrip) {
  for (std::uint32_t u = 0; u < 0x10000u; ++u) {
    BFloat16 x;
    x.bits = static_cast<std::uint16_t>(u);
    const auto value = static_cast<float>(x);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(static_cast<float>(BFloat16(value)))) << u;
      EXPECT_EQ(bits_of(value), u | 0x40u);  // quiet, sign and payload kept
    } else {
      EXPECT_EQ(bits_of(value), u);
    }
  }
}

TEST(Bfloat16, RoundsToNearestEven) {
  EXPECT_EQ(bits_of(1.0f), 0x3f80);
  EXPECT_EQ(bits_of(1.0f + 0x1p-8f), 0x3f80);             // a tie, down to even
  EXPECT_EQ(bits_of(1.0f + 0x1p-8f + 0x1p-20f), 0x3f81);  // just above it
  EXPECT_EQ(bits_of(1.0f + 3 * 0x1p-8f), 0x3f82);         // a tie, up to even
  EXPECT_EQ(bits_of(-1.0f - 3 * 0x1p-8f), 0xbf82);
  EXPECT_EQ(bits_of(std::numeric_limits<float>::max()), 0x7f80);  // rounds over to infinity
  EXPECT_EQ(bits_of(-std::numeric_limits<float>::infinity()), 0xff80);
  EXPECT_EQ(bits_of(0x1p-133f), 0x0001);  // the smallest subnormal
  EXPECT_EQ(bits_of(0x1p-134f), 0x0000);  // a tie, down to even
  EXPECT_EQ(bits_of(-0.0f), 0x8000);
}

TEST(Bfloat16, ANanWhosePayloadLiesLowStaysNan) {
  const auto nan = std::bit_cast<float>(0x7f800001u);
  EXPECT_TRUE(std::isnan(static_cast<float>(BFloat16(nan))));
}

TEST(Shape, CountsAndPrints) {
  EXPECT_EQ(Shape{}.count(), 0);
  EXPECT_EQ((Shape{2, 3, 4}).count(), 24);
  EXPECT_EQ((Shape{2, 0}).count(), 0);
  EXPECT_EQ(to_string(Shape{64, 192}), "(64, 192)");
  EXPECT_EQ((Shape{std::int64_t{128} * 1024, std::int64_t{1} << 20}).count(), std::int64_t{1} << 37);
  EXPECT_NE((Shape{2, 3}), (Shape{3, 2}));
}

TEST(Dtype, BytesOfElements) {
  EXPECT_EQ(bytes_of(DType::fp32, 3), 12u);
  EXPECT_EQ(bytes_of(DType::bf16, 3), 6u);
  EXPECT_EQ(bytes_of(DType::e4m3, 3), 3u);
  EXPECT_EQ(bytes_of(DType::i32, std::int64_t{1} << 40), std::size_t{1} << 42);
}

TEST(Tensor, SlicesRows) {
  std::vector<float> memory(24);
  const Tensor t{reinterpret_cast<std::byte*>(memory.data()), {6, 4}, DType::fp32};
  const Tensor rows = t.slice(2, 3);
  EXPECT_EQ(rows.as<float>(), memory.data() + 8);
  EXPECT_EQ(rows.shape, (Shape{3, 4}));
  EXPECT_EQ(t.cols(), 4);
  EXPECT_TRUE(t.slice(6, 0).empty());
  EXPECT_EQ(t.slice(0, 0).cols(), 4);
}

TEST(Tensor, ReshapesToNoMoreElements) {
  std::vector<float> memory(24);
  const Tensor t{reinterpret_cast<std::byte*>(memory.data()), {6, 4}, DType::fp32};
  EXPECT_EQ(t.reshaped({2, 12}).rows(), 2);
  EXPECT_EQ(t.reshaped({5}).count(), 5);
  EXPECT_THROW((void)t.reshaped({5, 5}), base::Error);
}

TEST(Tensor, IsNotReadAsAnotherType) {
  const Tensor t{nullptr, {1}, DType::bf16};
  EXPECT_THROW((void)t.as<float>(), base::Error);
  EXPECT_EQ(t.as<BFloat16>(), nullptr);
  EXPECT_TRUE(t.empty());
}

}  // namespace
}  // namespace shard8::tensor
