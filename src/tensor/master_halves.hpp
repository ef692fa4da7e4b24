// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

#include "tensor/bfloat16.hpp"
#include "tensor/host_device.hpp"

namespace shard8::tensor {

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
