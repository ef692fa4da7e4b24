// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

#include "tensor/host_device.hpp"

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

}  // namespace shard8::tensor
