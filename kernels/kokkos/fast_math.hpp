// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Macros.hpp>
#include <Kokkos_MathematicalFunctions.hpp>
#include <bit>
#include <cstdint>
#include <limits>

namespace shard8::kernels {

/// a·b + c, with one rounding where the processor has an instruction for it. The function is written out, because the
/// compiler would contract a·b + c in one loop and not in another, or in vector code and not in the rest of the same
/// loop.
KOKKOS_INLINE_FUNCTION float multiply_add(float a, float b, float c) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA) || defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
  return Kokkos::fma(a, b, c);
#else
  return a * b + c;
#endif
}

/// e^x in fp32, with the same bits on every processor that has FMA. The function, unlike a library call, lets a loop
/// become vector code: x = n·ln2 + r with |r| ≤ ln2/2 (ln2 in two parts, so that n times the first is exact), a minimax
/// polynomial of degree 6 for e^r, times 2^n. The result is within 2 ulp of e^x on [−87.33, 88.37]. Below it is 0 (e^x
/// is nearly subnormal there), above it is infinity (from 2^127.5), and NaN gives NaN.
KOKKOS_INLINE_FUNCTION float polynomial_exp(float x) {
  constexpr float kLog2e = 1.44269504f;
  constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  // 1.5·2^23 + 127: after this is added, the low bits are the rounded integer as a biased exponent.
  constexpr float kRound = 12583039.0f;
  constexpr float kLowest = -87.33f, kHighest = 88.376f;
  const float shifted = multiply_add(x, kLog2e, kRound);
  const float n = shifted - kRound;
  const float r = multiply_add(-n, kLn2Low, multiply_add(-n, kLn2High, x));
  float q = 0x1.6a23d0p-10f;
  q = multiply_add(q, r, 0x1.123a20p-7f);
  q = multiply_add(q, r, 0x1.5558f2p-5f);
  q = multiply_add(q, r, 0x1.555492p-3f);
  q = multiply_add(q, r, 0x1.fffffcp-2f);
  const float p = multiply_add(q * r, r, r) + 1.0f;
  const float e = p * std::bit_cast<float>(std::bit_cast<std::uint32_t>(shifted) << 23);
  const float floored = x < kLowest ? 0.0f : e;
  return x > kHighest ? std::numeric_limits<float>::infinity() : floored;
}

/// e^x in fp32. Hosts compute polynomial_exp. A GPU uses its instruction for 2^y, with y = x·log2(e) in two parts: the
/// result is within 4 ulp.
KOKKOS_INLINE_FUNCTION float fast_exp(float x) {
#if defined(__CUDA_ARCH__)
  constexpr float kLog2 = 1.44269504f, kLog2Rest = 1.92596303e-8f, kLn2 = 0.693147181f;
  const float y = x * kLog2;
  const float rest = fmaf(x, kLog2Rest, fmaf(x, kLog2, -y));
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(y));
  const float e = fmaf(power * kLn2, rest, power);
  // Above the upper end 2·power is infinite.
  return x < -87.33f ? 0.0f : x > 88.376f ? power + power : e;
#else
  return polynomial_exp(x);
#endif
}

#if defined(__CUDA_ARCH__)
/// 1/(1 + 2^−y), within 4 ulp where the result is normal; NaN for NaN.
__device__ __forceinline__ float fast_sigmoid_2(float y) {
  float power, s;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(-y));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(s) : "f"(1.0f + power));
  return s;
}
#endif

/// 1/(1 + e^−x), within 4 ulp (8 on a GPU) where the result is normal. A NaN gives the same NaN, so the sign of
/// x·sigmoid(x) does not depend on the order of the factors.
KOKKOS_INLINE_FUNCTION float fast_sigmoid(float x) {
#if defined(__CUDA_ARCH__)
  float s;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(s) : "f"(1.0f + fast_exp(-x)));
#else
  const float s = 1.0f / (1.0f + fast_exp(-x));
#endif
  return x == x ? s : x;
}

/// fast_sigmoid for results that are rounded to T: for bf16 on a GPU within a relative 2^−17 where the result is
/// normal, in a third of the instructions.
template <class T>
KOKKOS_FORCEINLINE_FUNCTION float fast_sigmoid_for(float x) {
#if defined(__CUDA_ARCH__)
  constexpr float kLog2 = 1.44269504f;
  if constexpr (sizeof(T) == 2) return fast_sigmoid_2(x * kLog2);
#endif
  return fast_sigmoid(x);
}

}  // namespace shard8::kernels
