// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tensor/float8.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <type_traits>

#include "tests/support/float8_reference.hpp"
#include "tests/support/h5_reader.hpp"

namespace shard8::tests {
namespace {

using tensor::BFloat16;
using tensor::E4M3;
using tensor::E5M2;
using tensor::E8M0;

const std::string kGold = SHARD8_SOURCE_DIR "/tests/gold/fp8_casts.h5";

template <class Q>
class Float8 : public ::testing::Test {
 protected:
  static constexpr bool kIsE4M3 = std::is_same_v<Q, E4M3>;
  const Float8Reference reference_ = kIsE4M3 ? Float8Reference::e4m3() : Float8Reference::e5m2();

  static Q code(int bits) {
    Q q;
    q.bits = static_cast<std::uint8_t>(bits);
    return q;
  }
  static std::string gold(const char* name) { return (kIsE4M3 ? "e4m3/" : "e5m2/") + std::string(name); }
  /// Checks that encode(x) and encode(−x) are what the reference says.
  void check(float x) const {
    EXPECT_EQ(Q(x).bits, reference_.encode(static_cast<double>(x))) << std::hexfloat << x;
    EXPECT_EQ(Q(-x).bits, reference_.encode(-static_cast<double>(x))) << std::hexfloat << -x;
  }
};
template <class Q>
class Float8Golden : public Float8<Q> {};

using Formats = ::testing::Types<E4M3, E5M2>;
TYPED_TEST_SUITE(Float8, Formats);
TYPED_TEST_SUITE(Float8Golden, Formats);

TYPED_TEST(Float8, EveryCodeDecodes) {
  int nans = 0;
  for (int c = 0; c < 256; ++c) {
    const auto got = static_cast<float>(this->code(c));
    const double want = this->reference_.decode(static_cast<std::uint8_t>(c));
    EXPECT_EQ(std::signbit(got), c >= 128) << c;
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(got)) << c;
      ++nans;
    } else {
      EXPECT_EQ(static_cast<double>(got), want) << c;
    }
  }
  EXPECT_EQ(nans, TestFixture::kIsE4M3 ? 2 : 6);
}

TYPED_TEST(Float8, EveryFiniteCodeComesBack) {
  int finite = 0;
  for (int c = 0; c < 256; ++c) {
    const auto value = static_cast<float>(this->code(c));
    if (!std::isfinite(value)) continue;
    ++finite;
    EXPECT_EQ(TypeParam(value).bits, c);
  }
  EXPECT_EQ(finite, TestFixture::kIsE4M3 ? 254 : 248);
}

TYPED_TEST(Float8, RoundsToNearestEven) {
  const auto& magnitudes = this->reference_.magnitudes();
  for (std::size_t c = 0; c + 1 < magnitudes.size(); ++c) {
    const auto tie = static_cast<float>((magnitudes[c] + magnitudes[c + 1]) / 2);
    ASSERT_EQ(static_cast<double>(tie), (magnitudes[c] + magnitudes[c + 1]) / 2);
    EXPECT_EQ(TypeParam(tie).bits, c % 2 == 0 ? c : c + 1);
    EXPECT_EQ(TypeParam(std::nextafter(tie, 0.0f)).bits, c);
    EXPECT_EQ(TypeParam(std::nextafter(tie, HUGE_VALF)).bits, c + 1);
    EXPECT_EQ(TypeParam(-tie).bits, 128 + (c % 2 == 0 ? c : c + 1));
  }
}

TYPED_TEST(Float8, KeepsOrder) {
  std::set<int> seen;
  int before = 0;
  for (std::uint32_t bits = 0; bits <= 0x7f800000u; bits += 4099) {
    const auto x = std::bit_cast<float>(bits);
    const int now = TypeParam(x).bits;
    ASSERT_GE(now, before) << std::hexfloat << x;
    ASSERT_EQ(now, this->reference_.encode(static_cast<double>(x))) << std::hexfloat << x;
    seen.insert(before = now);
  }
  EXPECT_EQ(seen.size(), this->reference_.magnitudes().size());
}

TYPED_TEST(Float8, SaturatesAndKeepsNan) {
  using Limits = std::numeric_limits<float>;
  const float largest = TypeParam::kMax;
  for (const float x : {0.0f, largest, std::nextafter(largest, HUGE_VALF), largest * 1.0625f, largest * 1.5f,
                        Limits::max(), Limits::infinity(), Limits::min(), Limits::denorm_min()}) {
    this->check(x);
  }
  EXPECT_EQ(static_cast<float>(TypeParam(Limits::infinity())), largest);
  EXPECT_EQ(static_cast<float>(TypeParam(-Limits::infinity())), -largest);
  for (const std::uint32_t nan : {0x7f800001u, 0x7fc00000u, 0x7fffffffu}) {
    EXPECT_EQ(TypeParam(std::bit_cast<float>(nan)).bits, 0x7f);
    EXPECT_EQ(TypeParam(std::bit_cast<float>(nan | 0x80000000u)).bits, 0xff);
  }
}

TYPED_TEST(Float8Golden, EveryBf16) {
  const auto want = h5_read<std::uint8_t>(kGold, this->gold("bf16_all/out_u8_saturating")).values;
  const auto in = h5_read<float>(kGold, this->gold("bf16_all/in_f32")).values;
  ASSERT_EQ(want.size(), 65536u);
  ASSERT_EQ(in.size(), want.size());
  std::set<std::uint16_t> inputs;
  for (std::size_t i = 0; i < want.size(); ++i) {
    ASSERT_EQ(TypeParam(in[i]).bits, want[i]) << std::hexfloat << in[i];
    inputs.insert(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(in[i]) >> 16));
    EXPECT_TRUE(std::isnan(in[i]) || static_cast<float>(BFloat16(in[i])) == in[i]);
  }
  EXPECT_EQ(inputs.size(), 65536u);
}

TYPED_TEST(Float8Golden, Fp32) {
  const auto want = h5_read<std::uint8_t>(kGold, this->gold("f32/out_u8_saturating")).values;
  const auto in = h5_read<float>(kGold, this->gold("f32/in_f32")).values;
  ASSERT_GT(want.size(), 1000u);
  ASSERT_EQ(in.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    ASSERT_EQ(TypeParam(in[i]).bits, want[i]) << std::hexfloat << in[i];
  }
}

TYPED_TEST(Float8Golden, Decode) {
  const auto want = h5_read<float>(kGold, this->gold("decode_f32")).values;
  ASSERT_EQ(want.size(), 256u);
  for (int c = 0; c < 256; ++c) {
    const auto got = static_cast<float>(this->code(c));
    const float w = want[static_cast<std::size_t>(c)];
    if (std::isnan(w)) {
      EXPECT_TRUE(std::isnan(got)) << c;
    } else {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(got), std::bit_cast<std::uint32_t>(w)) << c;
    }
  }
}

TEST(E8m0, EveryCodeDecodes) {
  for (int c = 0; c < 255; ++c) {
    EXPECT_EQ(static_cast<float>(E8M0(static_cast<std::uint8_t>(c))), std::ldexp(1.0f, c - 127)) << c;
  }
  EXPECT_TRUE(std::isnan(static_cast<float>(E8M0(255))));
  EXPECT_EQ(static_cast<float>(E8M0()), 1.0f);
}

}  // namespace
}  // namespace shard8::tests
