// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Macros.hpp>
#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "kernels/kokkos/rounding.hpp"
#include "tensor/float8.hpp"

/// Widths. A width is how many elements one iteration of a kernel takes. The body of a kernel is written once, for a
/// width w: w.load(from, i) reads the elements at i, w.each(f) computes f(j) for each of them, w.store(to, i, values)
/// rounds and writes them. On hosts the width is one element, and loops become vector code. On a GPU a thread takes
/// packs of 16 bytes, several at once, so that enough loads are in flight.
namespace shard8::kernels {

/// Floats in registers.
template <int N>
struct Values {
  float at[N];
  KOKKOS_FORCEINLINE_FUNCTION float operator[](int j) const { return at[j]; }
};
template <>
struct Values<1> {
  float one;
  KOKKOS_FORCEINLINE_FUNCTION float operator[](int) const { return one; }
};

/// One element.
struct Single {
  static constexpr int kCount = 1;

  template <class T>
  struct Lanes {
    static constexpr int kCount = 1;
    T one;
    KOKKOS_FORCEINLINE_FUNCTION T raw(int) const { return one; }
    KOKKOS_FORCEINLINE_FUNCTION float operator[](int) const { return static_cast<float>(one); }
  };
  template <class T>
  KOKKOS_FORCEINLINE_FUNCTION Lanes<T> load(const T* from, std::int64_t i) const {
    Lanes<T> lanes;
    lanes.one = from[i];
    return lanes;
  }
  template <class F>
  KOKKOS_FORCEINLINE_FUNCTION Values<1> each(const F& f) const {
    Values<1> values;
    values.one = f(0);
    return values;
  }
  /// Σ f(j).
  template <class F>
  KOKKOS_FORCEINLINE_FUNCTION float sum(const F& f) const {
    return f(0);
  }
  /// The values rounded to T.
  template <class T, class V>
  KOKKOS_FORCEINLINE_FUNCTION Lanes<T> round(const V& values) const {
    Lanes<T> lanes;
    lanes.one = static_cast<T>(values[0]);
    return lanes;
  }
  template <class T, class V>
  KOKKOS_FORCEINLINE_FUNCTION Lanes<T> round_results(const V& values) const {
    return round<T>(values);
  }
  template <class T>
  KOKKOS_FORCEINLINE_FUNCTION void store_lanes(T* to, std::int64_t i, const Lanes<T>& lanes) const {
    to[i] = lanes.one;
  }
  template <class T, class V>
  KOKKOS_FORCEINLINE_FUNCTION void store(T* to, std::int64_t i, const V& values) const {
    to[i] = static_cast<T>(values[0]);
  }
  /// Writes f(j), already of type T, as element i + j.
  template <class T, class F>
  KOKKOS_FORCEINLINE_FUNCTION void fill(T* to, std::int64_t i, const F& f) const {
    to[i] = f(0);
  }
};

/// kPacks packs of N elements each, `stride` elements from one pack to the next.
template <int N, int kPacks>
struct Packed {
  static constexpr int kCount = N * kPacks;
  std::int64_t stride;

  template <class T>
  struct Lanes {
    static constexpr int kCount = N * kPacks;
    Words<N* static_cast<int>(sizeof(T))> pack[kPacks];

    KOKKOS_FORCEINLINE_FUNCTION T raw(int j) const { return pack[j / N].template at<T>(j % N); }
    KOKKOS_FORCEINLINE_FUNCTION float operator[](int j) const {
      if constexpr (std::is_same_v<T, tensor::BFloat16>) {
        const std::uint32_t word = pack[j / N].word[j % N / 2];
        return std::bit_cast<float>(j % 2 == 0 ? word << 16 : word & 0xffff0000u);
      } else {
        return static_cast<float>(raw(j));
      }
    }
  };

  template <class T>
  KOKKOS_FORCEINLINE_FUNCTION Lanes<T> load(const T* from, std::int64_t i) const {
    Lanes<T> lanes;
    SHARD8_UNROLL
    for (int u = 0; u < kPacks; ++u) lanes.pack[u] = load_words<N* static_cast<int>(sizeof(T))>(from + i + u * stride);
    return lanes;
  }
  template <class F>
  KOKKOS_FORCEINLINE_FUNCTION Values<kCount> each(const F& f) const {
    Values<kCount> values;
    SHARD8_UNROLL
    for (int j = 0; j < kCount; ++j) values.at[j] = f(j);
    return values;
  }
  template <class F>
  KOKKOS_FORCEINLINE_FUNCTION float sum(const F& f) const {
    float total = f(0);
    SHARD8_UNROLL
    for (int j = 1; j < kCount; ++j) total += f(j);
    return total;
  }
  /// Lanes of T, each pack made by pack() of its floats.
  template <class T, class V, class F>
  KOKKOS_FORCEINLINE_FUNCTION Lanes<T> by_packs(const V& values, const F& pack) const {
    Lanes<T> lanes;
    SHARD8_UNROLL
    for (int u = 0; u < kPacks; ++u) {
      Values<N> part;
      SHARD8_UNROLL
      for (int k = 0; k < N; ++k) part.at[k] = values[u * N + k];
      lanes.pack[u] = pack(part.at);
    }
    return lanes;
  }
  template <class T, class V>
  KOKKOS_FORCEINLINE_FUNCTION Lanes<T> round(const V& values) const {
    return by_packs<T>(values, [](const float(&x)[N]) { return round_pack<T, N>(x); });
  }
  /// As round, for results of arithmetic, see rounding.hpp.
  template <class T, class V>
  KOKKOS_FORCEINLINE_FUNCTION Lanes<T> round_results(const V& values) const {
    return by_packs<T>(values, [](const float(&x)[N]) { return kernels::round_results<T, N>(x); });
  }
  /// The products of two bf16 each, rounded once.
  KOKKOS_FORCEINLINE_FUNCTION auto multiply(const Lanes<tensor::BFloat16>& a, const Lanes<tensor::BFloat16>& b) const {
    Lanes<tensor::BFloat16> product;
    SHARD8_UNROLL
    for (int u = 0; u < kPacks; ++u) {
      SHARD8_UNROLL
      for (int k = 0; k < N / 2; ++k) product.pack[u].word[k] = multiply_pairs(a.pack[u].word[k], b.pack[u].word[k]);
    }
    return product;
  }
  template <class T>
  KOKKOS_FORCEINLINE_FUNCTION void store_lanes(T* to, std::int64_t i, const Lanes<T>& lanes) const {
    SHARD8_UNROLL
    for (int u = 0; u < kPacks; ++u) store_words(to + i + u * stride, lanes.pack[u]);
  }
  template <class T, class V>
  KOKKOS_FORCEINLINE_FUNCTION void store(T* to, std::int64_t i, const V& values) const {
    store_lanes(to, i, round<T>(values));
  }
  template <class T, class F>
  KOKKOS_FORCEINLINE_FUNCTION void fill(T* to, std::int64_t i, const F& f) const {
    SHARD8_UNROLL
    for (int u = 0; u < kPacks; ++u) {
      Words<N* static_cast<int>(sizeof(T))> words{};
      SHARD8_UNROLL
      for (int k = 0; k < N; ++k) words.put(k, static_cast<T>(f(u * N + k)));
      store_words(to + i + u * stride, words);
    }
  }
};

/// How many elements of the widest of these types are 16 bytes.
template <class... T>
inline constexpr int kPack = 16 / static_cast<int>(std::max({sizeof(T)...}));

/// Whether a matrix with rows of `row` elements can be read in packs of N elements: no pack crosses the end of a row,
/// and every pack begins at a multiple of its size.
template <int N, class... T>
bool packs_fit(std::int64_t row, const T*... data) {
  const auto aligned = [](const auto* p) {
    return reinterpret_cast<std::uintptr_t>(p) % std::min<std::size_t>(16, N * sizeof(*p)) == 0;
  };
  return row % N == 0 && (aligned(data) && ...);
}

}  // namespace shard8::kernels
