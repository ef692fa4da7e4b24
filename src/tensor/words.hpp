// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "tensor/float8.hpp"

/// Arithmetic on small packs in one 32-bit word: two bf16 ("a pair", the first in the low half), or four 8-bit codes
/// (the first in the low byte). A GPU runs each function as one instruction or a few. Kokkos kernels and plain CUDA
/// kernels include this header, so each instruction, and what is known about the compiler's errors with it, is in one
/// place. Hosts, and GPUs without the instruction, use the scalar conversions of float8.hpp. The scalar conversions
/// give the same bits but for NaN, as each function says.
namespace shard8::tensor {

/// The first and the second bf16 of a pair, as floats.
SHARD8_FUNCTION float low_of(std::uint32_t pair) { return std::bit_cast<float>(pair << 16); }
SHARD8_FUNCTION float high_of(std::uint32_t pair) { return std::bit_cast<float>(pair & 0xffff0000u); }

/// The pair of `low` and `high`, each rounded to bf16 to nearest even. On GPUs every NaN becomes 0x7fff. BFloat16 makes
/// the same 0x7fff of the one NaN that arithmetic gives on GPUs. So results of arithmetic have the same bits
/// everywhere, but a NaN that was loaded from memory may not.
SHARD8_FUNCTION std::uint32_t round_pair(float low, float high) {
#if defined(__CUDA_ARCH__)
  std::uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#else
  return static_cast<std::uint32_t>(BFloat16(low).bits) | static_cast<std::uint32_t>(BFloat16(high).bits) << 16;
#endif
}

/// The products a·b of two pairs, each product rounded once to bf16.
SHARD8_FUNCTION std::uint32_t multiply_pairs(std::uint32_t a, std::uint32_t b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  std::uint32_t product;
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
  return product;
#else
  return round_pair(low_of(a) * low_of(b), high_of(a) * high_of(b));
#endif
}

/// For each half, the larger magnitude of a and b; a NaN wins. The sign bits of the result are undefined. Do not pass a
/// zero that the compiler can see: ptxas 13.0 then compiles max(|0|, |a·b|) of a product as max(0, a·b).
SHARD8_FUNCTION std::uint32_t larger_pair(std::uint32_t a, std::uint32_t b) {
#if defined(__CUDA_ARCH__)
  std::uint32_t larger;
  asm("max.NaN.xorsign.abs.bf16x2 %0, %1, %2;" : "=r"(larger) : "r"(a), "r"(b));
  return larger;
#else
  const std::uint32_t high_a = a & 0x7fff0000u, high_b = b & 0x7fff0000u, low_a = a & 0x7fffu, low_b = b & 0x7fffu;
  return (high_a > high_b ? high_a : high_b) | (low_a > low_b ? low_a : low_b);
#endif
}

/// The larger magnitude of the two numbers of a pair, as the bits of a float.
SHARD8_FUNCTION std::int32_t magnitude_of(std::uint32_t pair) {
  const auto high = static_cast<std::int32_t>(pair & 0x7fff0000u),
             low = static_cast<std::int32_t>(pair << 16 & 0x7fff0000u);
  return high > low ? high : low;
}

/// Four numbers cast to Q, E4M3 or E5M2, saturating. NaN must not be among them: its sign is lost on GPUs. A single asm
/// statement makes the whole word: if the compiler joined two halves, and one half were used alone as well, ptxas 13.0
/// could lose the other half.
template <class Q>
SHARD8_FUNCTION std::uint32_t cast_to_codes(float a, float b, float c, float d) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  std::uint32_t codes;
  if constexpr (std::is_same_v<Q, E4M3>) {
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
#else
  return static_cast<std::uint32_t>(Q(a).bits) | static_cast<std::uint32_t>(Q(b).bits) << 8 |
         static_cast<std::uint32_t>(Q(c).bits) << 16 | static_cast<std::uint32_t>(Q(d).bits) << 24;
#endif
}

/// Two codes of Q, E4M3 or E5M2, as floats, the first in the low byte. NaN must not be among them: its sign is lost on
/// GPUs.
template <class Q>
SHARD8_FUNCTION void decode_codes(std::uint16_t codes, float& first, float& second) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  std::uint32_t halves;
  if constexpr (std::is_same_v<Q, E4M3>) {
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(codes));
  } else {
    asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(halves) : "h"(codes));
  }
  asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %2;\ncvt.f32.f16 %0, low;\ncvt.f32.f16 %1, high;\n}"
      : "=f"(first), "=f"(second)
      : "r"(halves));
#else
  first = static_cast<float>(std::bit_cast<Q>(static_cast<std::uint8_t>(codes)));
  second = static_cast<float>(std::bit_cast<Q>(static_cast<std::uint8_t>(codes >> 8)));
#endif
}

/// Four bytes picked from a and b. Each nibble of `which`, from the lowest on, names one byte: 0 to 3 of a, 4 to 7 of
/// b.
template <std::uint32_t which>
SHARD8_FUNCTION std::uint32_t pick_bytes(std::uint32_t a, std::uint32_t b) {
#if defined(__CUDA_ARCH__)
  return __byte_perm(a, b, which);
#else
  const std::uint64_t both = static_cast<std::uint64_t>(b) << 32 | a;
  std::uint32_t picked = 0;
  for (int k = 0; k < 4; ++k) {
    picked |= static_cast<std::uint32_t>(both >> ((which >> 4 * k & 7u) * 8) & 0xffu) << 8 * k;
  }
  return picked;
#endif
}

/// Transposes a 4 by 4 matrix of bytes, one row a word.
SHARD8_FUNCTION void transpose_4x4(std::uint32_t (&rows)[4]) {
  const std::uint32_t low01 = pick_bytes<0x5140>(rows[0], rows[1]), high01 = pick_bytes<0x7362>(rows[0], rows[1]);
  const std::uint32_t low23 = pick_bytes<0x5140>(rows[2], rows[3]), high23 = pick_bytes<0x7362>(rows[2], rows[3]);
  rows[0] = pick_bytes<0x5410>(low01, low23);
  rows[1] = pick_bytes<0x7632>(low01, low23);
  rows[2] = pick_bytes<0x5410>(high01, high23);
  rows[3] = pick_bytes<0x7632>(high01, high23);
}

/// Bit 7 of each byte says whether that code is not zero. The other bits are undefined.
SHARD8_FUNCTION std::uint32_t nonzero_codes(std::uint32_t codes) { return (codes & 0x7f7f7f7fu) + 0x7f7f7f7fu; }
/// Bits 15 and 31 say whether the first and the second bf16 are not zero. The other bits are undefined.
SHARD8_FUNCTION std::uint32_t nonzero_pair(std::uint32_t pair) { return (pair & 0x7fff7fffu) + 0x7fff7fffu; }

/// Bit 7 of each byte says whether that element was flushed: its bf16 (of first_pair, then second_pair) is not zero and
/// its code is zero. The other bits are 0.
SHARD8_FUNCTION std::uint32_t flushed_codes(std::uint32_t codes, std::uint32_t first_pair, std::uint32_t second_pair) {
  const std::uint32_t wanted = pick_bytes<0x7531>(nonzero_pair(first_pair), nonzero_pair(second_pair));
  return ~nonzero_codes(codes) & wanted & 0x80808080u;
}

}  // namespace shard8::tensor
