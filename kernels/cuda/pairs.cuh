// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

/// Pairs of bf16 in a word, and their casts to 8 bits; of devices of compute capability 9.0.
namespace shard8::kernels::cuda {

enum class Cast { none, e4m3, e5m2 };

/// As tensor/float8.hpp has them: the largest float that rounds to the largest number of the format, not beyond.
template <Cast cast>
constexpr float kRoundsToMax = cast == Cast::e4m3 ? 464.0f : 0x1.dffffep+15f;

__device__ __forceinline__ float low(std::uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float high(std::uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); }
__device__ __forceinline__ std::uint32_t word_of(const uint4& v, int k) {
  return k == 0 ? v.x : k == 1 ? v.y : k == 2 ? v.z : v.w;
}

/// Results of arithmetic: the one NaN that it makes is rounded as any number.
__device__ __forceinline__ std::uint32_t round_pair(float low, float high) {
  std::uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
__device__ __forceinline__ std::uint32_t multiply_pairs(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product;
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
  return product;
}
/// Of two pairs the larger magnitudes, NaN of any NaN, with signs that say nothing.
__device__ __forceinline__ std::uint32_t larger_pair(std::uint32_t a, std::uint32_t b) {
  std::uint32_t larger;
  asm("max.NaN.xorsign.abs.bf16x2 %0, %1, %2;" : "=r"(larger) : "r"(a), "r"(b));
  return larger;
}
__device__ __forceinline__ std::uint32_t largest_pair(const std::uint32_t (&pairs)[4]) {
  return larger_pair(larger_pair(pairs[0], pairs[1]), larger_pair(pairs[2], pairs[3]));
}
__device__ __forceinline__ std::uint32_t magnitude_of(std::uint32_t pair) {
  return max(pair & 0x7fff0000u, pair << 16 & 0x7fff0000u);
}

/// Four codes in one piece of assembler: of two halves that the compiler joins ptxas 13.0 may lose one.
template <Cast cast>
__device__ __forceinline__ std::uint32_t codes_of(std::uint32_t first, std::uint32_t second, float scale) {
  const float a = low(first) * scale, b = high(first) * scale, c = low(second) * scale, d = high(second) * scale;
  std::uint32_t codes;
  if constexpr (cast == Cast::e4m3) {
    asm("{\n.reg .b16 low, high;\ncvt.rn.satfinite.e4m3x2.f32 low, %2, %1;\n"
        "cvt.rn.satfinite.e4m3x2.f32 high, %4, %3;\nmov.b32 %0, {low, high};\n}"
        : "=r"(codes)
        : "f"(a), "f"(b), "f"(c), "f"(d));
  } else {
    asm("{\n.reg .b16 low, high;\ncvt.rn.satfinite.e5m2x2.f32 low, %2, %1;\n"
        "cvt.rn.satfinite.e5m2x2.f32 high, %4, %3;\nmov.b32 %0, {low, high};\n}"
        : "=r"(codes)
        : "f"(a), "f"(b), "f"(c), "f"(d));
  }
  return codes;
}

/// Bit 7 of each byte: whether that code is not of zero.
__device__ __forceinline__ std::uint32_t not_zero(std::uint32_t codes) { return (codes & 0x7f7f7f7fu) + 0x7f7f7f7fu; }
/// Bits 15 and 31: whether that bf16 is not zero.
__device__ __forceinline__ std::uint32_t some(std::uint32_t pair) { return (pair & 0x7fff7fffu) + 0x7fff7fffu; }

/// How many of eight bf16 are not zero and have a code of zero.
__device__ __forceinline__ std::uint32_t flushed_of(const std::uint32_t (&codes)[2], const std::uint32_t (&made)[4]) {
  std::uint32_t flushed = 0;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const std::uint32_t wanted = __byte_perm(some(made[2 * h]), some(made[2 * h + 1]), 0x7531);
    flushed += __popc(~not_zero(codes[h]) & wanted & 0x80808080u);
  }
  return flushed;
}

}  // namespace shard8::kernels::cuda
