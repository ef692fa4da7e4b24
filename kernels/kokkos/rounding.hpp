// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Macros.hpp>
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "tensor/bfloat16.hpp"
#include "tensor/float8.hpp"

#if defined(__CUDACC__)
#define SHARD8_UNROLL _Pragma("unroll")
#define SHARD8_NO_UNROLL _Pragma("unroll 1")
#else
#define SHARD8_UNROLL
#define SHARD8_NO_UNROLL
#endif

/// Packs of elements in registers, and their rounding: by instructions where a unit has them, with
/// the bits of the scalar conversions of tensor/ always.
namespace shard8::kernels {

/// kBytes of neighbouring elements.
template <int kBytes>
struct alignas(std::min(kBytes, 16)) Words {
  static_assert(kBytes % 4 == 0);
  std::uint32_t word[kBytes / 4];

  /// Element k of type T.
  template <class T>
  KOKKOS_FORCEINLINE_FUNCTION T at(int k) const {
    if constexpr (sizeof(T) == 4) {
      return std::bit_cast<T>(word[k]);
    } else if constexpr (sizeof(T) == 2) {
      return std::bit_cast<T>(static_cast<std::uint16_t>(word[k / 2] >> (k % 2 * 16)));
    } else {
      return std::bit_cast<T>(static_cast<std::uint8_t>(word[k / 4] >> (k % 4 * 8)));
    }
  }
  /// The same, where the words were 0.
  template <class T>
  KOKKOS_FORCEINLINE_FUNCTION void put(int k, T value) {
    if constexpr (sizeof(T) == 4) {
      word[k] = std::bit_cast<std::uint32_t>(value);
    } else if constexpr (sizeof(T) == 2) {
      word[k / 2] |= static_cast<std::uint32_t>(std::bit_cast<std::uint16_t>(value)) << (k % 2 * 16);
    } else {
      word[k / 4] |= static_cast<std::uint32_t>(std::bit_cast<std::uint8_t>(value)) << (k % 4 * 8);
    }
  }
};

template <int kBytes>
KOKKOS_FORCEINLINE_FUNCTION Words<kBytes> load_words(const void* from) {
#if defined(__CUDA_ARCH__)
  return *static_cast<const Words<kBytes>*>(from);
#else
  Words<kBytes> words;
  std::memcpy(words.word, from, kBytes);
  return words;
#endif
}
template <int kBytes>
KOKKOS_FORCEINLINE_FUNCTION void store_words(void* to, const Words<kBytes>& words) {
#if defined(__CUDA_ARCH__)
  *static_cast<Words<kBytes>*>(to) = words;
#else
  std::memcpy(to, words.word, kBytes);
#endif
}
/// The same in global memory. By instructions for vectors: the compiler stores words that come of two branches each
/// alone.
template <int kBytes>
KOKKOS_FORCEINLINE_FUNCTION void store_global(void* to, const Words<kBytes>& words) {
#if defined(__CUDA_ARCH__)
  const auto place = __cvta_generic_to_global(to);
  if constexpr (kBytes == 16) {
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(place), "r"(words.word[0]), "r"(words.word[1]),
                 "r"(words.word[2]), "r"(words.word[3])
                 : "memory");
    return;
  } else if constexpr (kBytes == 8) {
    asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(place), "r"(words.word[0]), "r"(words.word[1]) : "memory");
    return;
  }
#endif
  store_words(to, words);
}

/// (low, high) rounded to bf16, but for NaN, whose sign and payload are lost on devices.
KOKKOS_FORCEINLINE_FUNCTION std::uint32_t round_numbers_to_bf16(float low, float high) {
#if defined(__CUDA_ARCH__)
  std::uint32_t both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
#else
  return static_cast<std::uint32_t>(tensor::BFloat16(low).bits) |
         static_cast<std::uint32_t>(tensor::BFloat16(high).bits) << 16;
#endif
}

/// N floats as T, fp32 or bf16.
template <class T, int N>
KOKKOS_FORCEINLINE_FUNCTION Words<N* static_cast<int>(sizeof(T))> round_pack(const float (&x)[N]) {
  Words<N* static_cast<int>(sizeof(T))> words{};
  if constexpr (std::is_same_v<T, tensor::BFloat16>) {
    bool nan = false;
    SHARD8_UNROLL
    for (int k = 0; k < N; k += 2) {
      words.word[k / 2] = round_numbers_to_bf16(x[k], x[k + 1]);
      nan |= !(x[k] == x[k]) | !(x[k + 1] == x[k + 1]);
    }
    if (nan) {
      words = {};
      SHARD8_UNROLL
      for (int k = 0; k < N; ++k) words.put(k, tensor::BFloat16(x[k]));
    }
  } else {
    SHARD8_UNROLL
    for (int k = 0; k < N; ++k) words.put(k, static_cast<T>(x[k]));
  }
  return words;
}

/// The same of results of arithmetic. CUDA devices make one NaN alone, which the instruction rounds as
/// BFloat16 does.
template <class T, int N>
KOKKOS_FORCEINLINE_FUNCTION Words<N* static_cast<int>(sizeof(T))> round_results(const float (&x)[N]) {
#if defined(__CUDA_ARCH__)
  if constexpr (std::is_same_v<T, tensor::BFloat16>) {
    Words<2 * N> words;
    SHARD8_UNROLL
    for (int k = 0; k < N; k += 2) words.word[k / 2] = round_numbers_to_bf16(x[k], x[k + 1]);
    return words;
  }
#endif
  return round_pack<T, N>(x);
}

/// Of two pairs of bf16 the larger magnitudes, NaN of any NaN, with signs that say nothing.
KOKKOS_FORCEINLINE_FUNCTION std::uint32_t larger_pair(std::uint32_t a, std::uint32_t b) {
#if defined(__CUDA_ARCH__)
  std::uint32_t larger;
  asm("max.NaN.xorsign.abs.bf16x2 %0, %1, %2;" : "=r"(larger) : "r"(a), "r"(b));
  return larger;
#else
  const std::uint32_t high_a = a & 0x7fff0000u, high_b = b & 0x7fff0000u, low_a = a & 0x7fffu, low_b = b & 0x7fffu;
  return (high_a > high_b ? high_a : high_b) | (low_a > low_b ? low_a : low_b);
#endif
}

/// The same of some pairs. (Not of them and zero: ptxas 13.0 takes max(|0|, |a·b|) of a product for max(0, a·b).)
template <int kBytes>
KOKKOS_FORCEINLINE_FUNCTION std::uint32_t largest_pair(const Words<kBytes>& words) {
  static_assert(kBytes > 4);
  std::uint32_t pair = words.word[0];
  SHARD8_UNROLL
  for (int k = 1; k < kBytes / 4; ++k) pair = larger_pair(pair, words.word[k]);
  return pair;
}

/// a·b of two pairs of bf16, rounded once.
KOKKOS_FORCEINLINE_FUNCTION std::uint32_t multiply_pairs(std::uint32_t a, std::uint32_t b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  std::uint32_t product;
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
  return product;
#else
  const auto low = [](std::uint32_t x) { return std::bit_cast<float>(x << 16); };
  const auto high = [](std::uint32_t x) { return std::bit_cast<float>(x & 0xffff0000u); };
  return round_numbers_to_bf16(low(a) * low(b), high(a) * high(b));
#endif
}

/// The bytes of a and b that the nibbles of `which` name, 0 to 3 of a and 4 to 7 of b.
template <std::uint32_t which>
KOKKOS_FORCEINLINE_FUNCTION std::uint32_t pick_bytes(std::uint32_t a, std::uint32_t b) {
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

/// Four numbers rounded to an 8-bit format, saturating; not for NaN. One piece of assembler makes the
/// whole word: of halves that the compiler puts together ptxas 13.0 may lose one that is used alone too.
template <class Q>
KOKKOS_FORCEINLINE_FUNCTION std::uint32_t round_numbers_to_float8(float a, float b, float c, float d) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  std::uint32_t all;
  if constexpr (std::is_same_v<Q, tensor::E4M3>) {
    asm("{\n.reg .b16 low, high;\ncvt.rn.satfinite.e4m3x2.f32 low, %2, %1;\n"
        "cvt.rn.satfinite.e4m3x2.f32 high, %4, %3;\nmov.b32 %0, {low, high};\n}"
        : "=r"(all)
        : "f"(a), "f"(b), "f"(c), "f"(d));
  } else {
    asm("{\n.reg .b16 low, high;\ncvt.rn.satfinite.e5m2x2.f32 low, %2, %1;\n"
        "cvt.rn.satfinite.e5m2x2.f32 high, %4, %3;\nmov.b32 %0, {low, high};\n}"
        : "=r"(all)
        : "f"(a), "f"(b), "f"(c), "f"(d));
  }
  return all;
#else
  return static_cast<std::uint32_t>(Q(a).bits) | static_cast<std::uint32_t>(Q(b).bits) << 8 |
         static_cast<std::uint32_t>(Q(c).bits) << 16 | static_cast<std::uint32_t>(Q(d).bits) << 24;
#endif
}

/// N codes of an 8-bit format as floats; not for NaN, whose sign is lost on devices.
template <class Q, int N>
KOKKOS_FORCEINLINE_FUNCTION void decode_numbers(float (&values)[N], const Words<N>& codes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  SHARD8_UNROLL
  for (int k = 0; k < N; k += 2) {
    const auto two = static_cast<std::uint16_t>(codes.word[k / 4] >> (k % 4 * 8));
    std::uint32_t halves;
    if constexpr (std::is_same_v<Q, tensor::E4M3>) {
      asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(two));
    } else {
      asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(halves) : "h"(two));
    }
    asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %2;\ncvt.f32.f16 %0, low;\ncvt.f32.f16 %1, high;\n}"
        : "=f"(values[k]), "=f"(values[k + 1])
        : "r"(halves));
  }
#else
  SHARD8_UNROLL
  for (int k = 0; k < N; ++k) values[k] = static_cast<float>(codes.template at<Q>(k));
#endif
}

/// Whether a code is NaN.
template <class Q, int N>
KOKKOS_FORCEINLINE_FUNCTION bool any_nan(const Words<N>& codes) {
  constexpr std::uint32_t kAbove = std::is_same_v<Q, tensor::E4M3> ? 0x01010101u : 0x03030303u;  // 0x80 − the first
  std::uint32_t seen = 0;
  SHARD8_UNROLL
  for (int k = 0; k < N / 4; ++k) seen |= (codes.word[k] & 0x7f7f7f7fu) + kAbove;
  return (seen & 0x80808080u) != 0;
}

}  // namespace shard8::kernels
