// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "base/arithmetic.hpp"

namespace shard8::tensor {

/// A bf16 number: the upper half of an IEEE binary32. Conversion from float rounds to nearest even; numbers above the
/// largest bf16 become infinity; a NaN stays NaN, with its sign and upper payload bits, made quiet. Conversion to float
/// is exact.
struct BFloat16 {
  std::uint16_t bits = 0;

  BFloat16() = default;
  SHARD8_FUNCTION explicit BFloat16(float value) {
    const auto u = to_bits(value);
    const std::uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    const std::uint32_t quiet = (u >> 16) | 0x0040u;
    bits = static_cast<std::uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
  }
  SHARD8_FUNCTION explicit operator float() const { return from_bits(static_cast<std::uint32_t>(bits) << 16); }

 private:
  SHARD8_FUNCTION static std::uint32_t to_bits(float x) { return std::bit_cast<std::uint32_t>(x); }
  SHARD8_FUNCTION static float from_bits(std::uint32_t u) { return std::bit_cast<float>(u); }
};
static_assert(sizeof(BFloat16) == 2);

/// An fp32 number as its bf16 rounding and the remainder, see kernels/adamw.hpp.
struct MasterHalves {
  BFloat16 weight;
  std::int16_t remainder;
};

SHARD8_FUNCTION MasterHalves split_halves(float master) {
  const auto bits = std::bit_cast<std::uint32_t>(master);
  // Rounded up, some NaNs would become numbers.
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  const std::uint32_t high = nan ? (bits >> 16) | 0x0040u : (bits + 0x8000u) >> 16;
  const std::uint32_t rest = nan ? 0u : bits - (high << 16);
  return {std::bit_cast<BFloat16>(static_cast<std::uint16_t>(high)),
          static_cast<std::int16_t>(static_cast<std::uint16_t>(rest))};
}

SHARD8_FUNCTION float join_halves(BFloat16 weight, std::int16_t remainder) {
  const auto high = static_cast<std::uint32_t>(weight.bits) << 16;
  return std::bit_cast<float>(high + static_cast<std::uint32_t>(static_cast<std::int32_t>(remainder)));
}

/// The 8-bit floating-point formats of Micikevicius et al. 2022 (OCP FP8). E4M3 has no infinity; its largest number is
/// 448. E5M2 is an IEEE format; its largest number is 57344. Conversion from float rounds to nearest even and
/// saturates: numbers beyond the largest, and infinities, become the largest. NaN becomes 0x7F with the input's sign,
/// in both formats, as PyTorch's cast of the saturated value does. Conversion to float is exact.
namespace float8 {

/// The code of a number without sign, in a format of `kMantissa` mantissa bits and exponent bias `kBias`. `magnitude`
/// is the bits of |value| as a float, `largest` the largest number of the format. The code only uses selects of
/// integers, so that loops over it become vector code.
template <int kMantissa, int kBias>
SHARD8_FUNCTION std::uint32_t encode(std::uint32_t magnitude, float largest) {
  constexpr int kDropped = 23 - kMantissa;
  constexpr std::uint32_t kRebias = static_cast<std::uint32_t>(127 - kBias) << kMantissa;
  constexpr std::uint32_t kSmallestNormal = static_cast<std::uint32_t>(127 - kBias + 1) << 23;
  // A subnormal code counts units of the smallest subnormal number. The sum with 2^23 such units has that count,
  // rounded to nearest even, in its low bits.
  constexpr std::uint32_t kShiftBits = static_cast<std::uint32_t>(127 + 23 + 1 - kBias - kMantissa) << 23;
  const std::uint32_t most = std::bit_cast<std::uint32_t>(largest);
  const std::uint32_t a = magnitude < most ? magnitude : most;
  const std::uint32_t normal = ((a + ((1u << (kDropped - 1)) - 1u) + ((a >> kDropped) & 1u)) >> kDropped) - kRebias;
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(a) + std::bit_cast<float>(kShiftBits)) - kShiftBits;
  const std::uint32_t finite = a < kSmallestNormal ? subnormal : normal;
  return magnitude > 0x7f800000u ? 0x7fu : finite;
}

/// The float of a code without sign. `infinity` is the code of infinity (where there is none, `nan`), `nan` the first
/// code that is NaN.
template <int kMantissa, int kBias>
SHARD8_FUNCTION float decode(std::uint32_t bits, std::uint32_t infinity, std::uint32_t nan) {
  constexpr float kStep = std::bit_cast<float>(static_cast<std::uint32_t>(127 + 1 - kBias - kMantissa) << 23);
  constexpr std::uint32_t kRebias = static_cast<std::uint32_t>(127 - kBias) << 23;
  const std::uint32_t normal = (bits << (23 - kMantissa)) + kRebias;
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<std::int32_t>(bits)) * kStep);
  std::uint32_t value = bits < (1u << kMantissa) ? subnormal : normal;
  value = bits >= infinity ? 0x7f800000u : value;
  value = bits >= nan ? 0x7fc00000u : value;
  return std::bit_cast<float>(value);
}

}  // namespace float8

/// 1 sign, 4 exponent (bias 7), 3 mantissa bits; S.1111.111 is NaN.
struct E4M3 {
  static constexpr float kMax = 448.0f;
  static constexpr float kRoundsToMax = 464.0f;  ///< the largest float that rounds to kMax; larger ones saturate
  std::uint8_t bits = 0;

  E4M3() = default;
  SHARD8_FUNCTION explicit E4M3(float value) {
    const auto u = std::bit_cast<std::uint32_t>(value);
    bits = static_cast<std::uint8_t>(float8::encode<3, 7>(u & 0x7fffffffu, kMax) | ((u >> 24) & 0x80u));
  }
  SHARD8_FUNCTION explicit operator float() const {
    const std::uint32_t u = bits;
    const float magnitude = float8::decode<3, 7>(u & 0x7fu, 0x7fu, 0x7fu);
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | ((u & 0x80u) << 24));
  }
};
static_assert(sizeof(E4M3) == 1);

/// 1 sign, 5 exponent (bias 15), 2 mantissa bits; S.11111.00 is infinity, the patterns above NaN.
struct E5M2 {
  static constexpr float kMax = 57344.0f;
  static constexpr float kRoundsToMax = 0x1.dffffep+15f;  ///< as for E4M3: the float just below 61440
  std::uint8_t bits = 0;

  E5M2() = default;
  SHARD8_FUNCTION explicit E5M2(float value) {
    const auto u = std::bit_cast<std::uint32_t>(value);
    bits = static_cast<std::uint8_t>(float8::encode<2, 15>(u & 0x7fffffffu, kMax) | ((u >> 24) & 0x80u));
  }
  SHARD8_FUNCTION explicit operator float() const {
    const std::uint32_t u = bits;
    const float magnitude = float8::decode<2, 15>(u & 0x7fu, 0x7cu, 0x7du);
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | ((u & 0x80u) << 24));
  }
};
static_assert(sizeof(E5M2) == 1);

/// A power of two, 2^(bits − 127), for bits from 0 to 254; 255 is NaN (OCP Microscaling Formats 1.0, 2023). The
/// constructor takes the bits, not the exponent.
struct E8M0 {
  std::uint8_t bits = 127;

  E8M0() = default;
  SHARD8_FUNCTION explicit E8M0(std::uint8_t exponent) : bits(exponent) {}
  SHARD8_FUNCTION explicit operator float() const {
    const std::uint32_t u = bits;
    const std::uint32_t normal = u == 0 ? 0x00400000u : u << 23;
    return std::bit_cast<float>(u == 255u ? 0x7fc00000u : normal);
  }
};
static_assert(sizeof(E8M0) == 1);

}  // namespace shard8::tensor
