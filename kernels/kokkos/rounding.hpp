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
#else
#define SHARD8_UNROLL
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

/// Two numbers rounded to an 8-bit format, saturating; not for NaN.
template <class Q>
KOKKOS_FORCEINLINE_FUNCTION std::uint32_t round_numbers_to_float8(float low, float high) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  std::uint16_t both;
  if constexpr (std::is_same_v<Q, tensor::E4M3>) {
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(both) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(both) : "f"(high), "f"(low));
  }
  return both;
#else
  return static_cast<std::uint32_t>(Q(low).bits) | static_cast<std::uint32_t>(Q(high).bits) << 8;
#endif
}

}  // namespace shard8::kernels
