// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

#include "base/function.hpp"

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

}  // namespace shard8::tensor
