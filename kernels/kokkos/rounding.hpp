// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Macros.hpp>
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "tensor/words.hpp"

#if defined(__CUDACC__)
#define SHARD8_UNROLL _Pragma("unroll")
#define SHARD8_NO_UNROLL _Pragma("unroll 1")
#else
#define SHARD8_UNROLL
#define SHARD8_NO_UNROLL
#endif

/// Packs of elements in registers, and their conversions: by the instructions of tensor/words.hpp on GPUs, always with
/// the bits of the scalar conversions of tensor/.
namespace shard8::kernels {

using tensor::larger_pair;
using tensor::magnitude_of;
using tensor::multiply_pairs;
using tensor::round_pair;

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
  /// Sets element k, of type T. The words must be 0 there.
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
/// As store_words, to global memory, by an instruction that stores a vector. (The compiler stores words one by one if
/// they come from two branches.)
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

/// N floats as T, fp32 or bf16.
template <class T, int N>
KOKKOS_FORCEINLINE_FUNCTION Words<N* static_cast<int>(sizeof(T))> round_pack(const float (&x)[N]) {
  Words<N* static_cast<int>(sizeof(T))> words{};
  if constexpr (std::is_same_v<T, tensor::BFloat16>) {
    bool nan = false;
    SHARD8_UNROLL
    for (int k = 0; k < N; k += 2) {
      words.word[k / 2] = round_pair(x[k], x[k + 1]);
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

/// As round_pack, for results of arithmetic: CUDA devices make a single NaN, which round_pair rounds as BFloat16 does.
template <class T, int N>
KOKKOS_FORCEINLINE_FUNCTION Words<N* static_cast<int>(sizeof(T))> round_results(const float (&x)[N]) {
#if defined(__CUDA_ARCH__)
  if constexpr (std::is_same_v<T, tensor::BFloat16>) {
    Words<2 * N> words;
    SHARD8_UNROLL
    for (int k = 0; k < N; k += 2) words.word[k / 2] = round_pair(x[k], x[k + 1]);
    return words;
  }
#endif
  return round_pack<T, N>(x);
}

/// larger_pair of all pairs of the words.
template <int kBytes>
KOKKOS_FORCEINLINE_FUNCTION std::uint32_t largest_pair(const Words<kBytes>& words) {
  static_assert(kBytes > 4);
  std::uint32_t pair = words.word[0];
  SHARD8_UNROLL
  for (int k = 1; k < kBytes / 4; ++k) pair = larger_pair(pair, words.word[k]);
  return pair;
}

/// N codes of an 8-bit format as floats. NaN must not be among the codes: its sign is lost on GPUs.
template <class Q, int N>
KOKKOS_FORCEINLINE_FUNCTION void decode_numbers(float (&values)[N], const Words<N>& codes) {
  SHARD8_UNROLL
  for (int k = 0; k < N; k += 2) {
    tensor::decode_codes<Q>(static_cast<std::uint16_t>(codes.word[k / 4] >> (k % 4 * 8)), values[k], values[k + 1]);
  }
}

/// Whether a code is NaN.
template <class Q, int N>
KOKKOS_FORCEINLINE_FUNCTION bool any_nan(const Words<N>& codes) {
  // 0x80 minus the first code of NaN, in each byte.
  constexpr std::uint32_t kAbove = std::is_same_v<Q, tensor::E4M3> ? 0x01010101u : 0x03030303u;
  std::uint32_t seen = 0;
  SHARD8_UNROLL
  for (int k = 0; k < N / 4; ++k) seen |= (codes.word[k] & 0x7f7f7f7fu) + kAbove;
  return (seen & 0x80808080u) != 0;
}

}  // namespace shard8::kernels
