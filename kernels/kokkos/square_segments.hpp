// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/error.hpp"
#include "kernels/adamw.hpp"
#include "kernels/kokkos/loops.hpp"
#include "tensor/tensor.hpp"

/// The segments of kernels/adamw.hpp, for hosts and devices.
namespace shard8::kernels {

inline constexpr int kWarp = 32;

struct SquareSegments {
  std::int64_t rows = 0, cols = 1, across = 1;

  static SquareSegments of(const tensor::Tensor& x) { return {x.rows(), x.cols(), square_segments(1, x.cols())}; }
  KOKKOS_INLINE_FUNCTION std::int64_t count() const { return rows * across; }
  /// Elements before segment s, and in it.
  KOKKOS_INLINE_FUNCTION std::int64_t first(std::int64_t s) const {
    const std::int64_t row = s / across;
    return row * cols + (s - row * across) * kSquareSegment;
  }
  KOKKOS_INLINE_FUNCTION std::int64_t length(std::int64_t s) const {
    const std::int64_t rest = cols - s % across * kSquareSegment;
    return rest < kSquareSegment ? rest : kSquareSegment;
  }
  /// The most elements of a segment.
  KOKKOS_INLINE_FUNCTION std::int64_t longest() const { return cols < kSquareSegment ? cols : kSquareSegment; }

  /// On a device: whether each segment is summed by one lane, because it is short. Otherwise a warp sums it.
  KOKKOS_INLINE_FUNCTION bool by_lanes() const { return cols < kWarp; }
  /// On a device: how many neighbouring segments of `cols` elements a warp takes to have about `elements`, at most one
  /// for each lane.
  KOKKOS_INLINE_FUNCTION int of_warp(std::int64_t elements) const {
    const std::int64_t fill = elements / longest();
    if (by_lanes() || fill > kWarp) return kWarp;
    return fill < 1 ? 1 : static_cast<int>(fill);
  }
};

/// The bytes of `memory` (u8) as numbers of type T: square parts as doubles, a total as the words of a base::ExactSum.
template <class T>
T* words_of(const tensor::Tensor& memory) {
  return reinterpret_cast<T*>(memory.as<std::uint8_t>());
}

/// Σ x² of a segment by one thread. Eight sums, which become vector code, in an order of their own.
KOKKOS_INLINE_FUNCTION double segment_squares(const float* x, std::int64_t n) {
  constexpr int kSums = 8;
  double sums[kSums] = {};
  std::int64_t i = 0;
  for (; i + kSums <= n; i += kSums) {
    for (int j = 0; j < kSums; ++j) {
      const auto v = static_cast<double>(x[i + j]);
      sums[j] += v * v;
    }
  }
  for (int j = 0; i < n; ++i, ++j) sums[j] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

#if defined(__CUDACC__)
/// On a device: calls f(w, i) for the elements [0, n) of a segment by the lanes of a warp, each for 4 neighbours of
/// every 128 elements, in ascending order. `fits`: the neighbours can be read at once; it changes no order.
template <class F>
__device__ __forceinline__ void warp_packs(int lane, std::int64_t n, bool fits, const F& f) {
  constexpr int kN = kPack<float>;
  for (std::int64_t i = lane * kN; i < n; i += kWarp * kN) {
    if (fits) {
      f(Packed<kN, 1>{0}, i);
    } else {
      for (std::int64_t j = i; j < i + kN && j < n; ++j) f(Single{}, j);
    }
  }
}

/// Returns to every lane of a warp the sum of the `value` of all lanes. All lanes must call it.
__device__ __forceinline__ double warp_sum(double value) {
  for (int step = kWarp / 2; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  return value;
}

/// Adds the values of all lanes of a warp to the words of an exact sum. All lanes must call it. Terms of the same word
/// are added first: 32 amounts below 2^32 do not overflow.
__device__ __forceinline__ void warp_add_exactly(std::uint64_t* words, int lane, double value) {
  const base::ExactSum::Term term = base::ExactSum::term(value);
  bool left = value != 0.0;  // a NaN is, too
  for (unsigned lanes = __ballot_sync(0xffffffffu, left); lanes != 0; lanes = __ballot_sync(0xffffffffu, left)) {
    const int word = __shfl_sync(0xffffffffu, term.word, __ffs(static_cast<int>(lanes)) - 1);
    const bool now = left && term.word == word;
    if (now) left = false;
    for (int i = 0; i < 3; ++i) {
      auto amount = static_cast<unsigned long long>(now ? term.amount[i] : 0u);
      for (int step = kWarp / 2; step > 0; step /= 2) amount += __shfl_xor_sync(0xffffffffu, amount, step);
      if (lane == 0 && amount != 0) atomicAdd(reinterpret_cast<unsigned long long*>(words + word + i), amount);
    }
  }
}
#endif

}  // namespace shard8::kernels
