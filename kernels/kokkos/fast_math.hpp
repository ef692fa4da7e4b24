// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Macros.hpp>
#include <bit>
#include <cstdint>
#include <limits>

namespace shard8::kernels {

/// e^x in fp32, written so that a loop over it becomes vector code (a library call would not).
/// x = n·ln2 + r with |r| ≤ ln2/2 (ln2 in two parts, so that n times the first is exact), a minimax
/// polynomial of degree 6 for e^r, times 2^n. Within 2 ulp of e^x on [−87.33, 88.37]; 0 below (where
/// results come near the subnormal), infinity above (from 2^127.5), NaN for NaN.
KOKKOS_INLINE_FUNCTION float fast_exp(float x) {
  constexpr float kLog2e = 1.44269504f;
  constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  // 1.5·2^23 + 127: adding it leaves the rounded integer, as a biased exponent, in the low bits.
  constexpr float kRound = 12583039.0f;
  constexpr float kLowest = -87.33f, kHighest = 88.376f;
  const float shifted = x * kLog2e + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * kLn2High) - n * kLn2Low;
  float q = 0x1.6a23d0p-10f;
  q = q * r + 0x1.123a20p-7f;
  q = q * r + 0x1.5558f2p-5f;
  q = q * r + 0x1.555492p-3f;
  q = q * r + 0x1.fffffcp-2f;
  const float p = (q * r) * r + r + 1.0f;
  const float e = p * std::bit_cast<float>(std::bit_cast<std::uint32_t>(shifted) << 23);
  const float floored = x < kLowest ? 0.0f : e;
  return x > kHighest ? std::numeric_limits<float>::infinity() : floored;
}

/// 1/(1 + e^−x), within 4 ulp where it is normal.
KOKKOS_INLINE_FUNCTION float fast_sigmoid(float x) { return 1.0f / (1.0f + fast_exp(-x)); }

}  // namespace shard8::kernels
