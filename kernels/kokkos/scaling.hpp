// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>

#include "kernels/check/arguments.hpp"
#include "kernels/kokkos/cast.hpp"
#include "kernels/kokkos/loops.hpp"
#include "kernels/quantize.hpp"

/// Casts of the first rows of a matrix, whose number a kernel reads (CastOptions::end). Such kernels are compiled apart
/// from kernels that cast all rows, which so need no more registers and read nothing more.
namespace shard8::kernels {

/// How many rows are cast, and where they are counted.
struct RowEnd {
  const std::int32_t* end;  ///< null: all rows are cast
  std::int64_t cols;        ///< elements of a row
  CastCounts* counts;       ///< null: rows are not counted
  std::int64_t casts;       ///< how often an element is cast

  static RowEnd of(const char* kernel, const tensor::Tensor& x, const CastOptions& options, std::int64_t casts = 1) {
    return {row_end(kernel, options.end), x.cols(), options.counts, casts};
  }
  bool empty() const { return end == nullptr; }
  /// Adds the elements that are cast to CastCounts::elements. One team calls it.
  template <class AnyTeam>
  KOKKOS_FORCEINLINE_FUNCTION void count(const AnyTeam& team) const {
    if (counts == nullptr) return;
    once(team, [=, *this] {
      Kokkos::atomic_add(&counts->elements,
                         static_cast<std::uint64_t>(*end) * static_cast<std::uint64_t>(cols * casts));
    });
  }
};

/// As F, the body of for_stretches over the elements of a matrix. F is called for the first stretch even if it has no
/// elements.
template <class F>
struct StretchUntilEnd {
  F f;
  RowEnd end;
  template <class AnyTeam>
  KOKKOS_INLINE_FUNCTION void operator()(const AnyTeam& team, std::int64_t first, std::int64_t n) const {
    const std::int64_t rest = *end.end * end.cols - first;
    if (first == 0) end.count(team);
    if (rest > 0 || first == 0) f(team, first, rest < n ? rest : n);
  }
};

/// Calls f for stretches of a matrix of `count` elements, or of its first rows alone. See for_stretches.
template <class Bounds = NoBounds, std::int64_t kOnDevice = 8192, class F>
void for_stretches_until(const Exec& exec, const char* label, std::int64_t count, const F& f, const RowEnd& end) {
  if (end.empty())
    for_stretches<Bounds, kOnDevice>(exec, label, count, f);
  else
    for_stretches<Bounds, kOnDevice>(exec, label, count, StretchUntilEnd<F>{f, end});
}

/// As Tiles, the body of a loop over tiles of a matrix, row of tiles by row of tiles. Tiles::until(n) are the tiles of
/// the first n rows. kFirst: they are called for the first tile even if it has no rows.
template <class Tiles, bool kFirst>
struct TilesUntilEnd {
  Tiles tiles;
  RowEnd end;
  template <class AnyTeam, class... Scratch>
  KOKKOS_INLINE_FUNCTION void operator()(const AnyTeam& team, std::int64_t index, Scratch&... scratch) const {
    const Tiles limited = tiles.until(*end.end);
    if (index == 0) end.count(team);
    if (index < limited.count() || (kFirst && index == 0)) limited(team, index, scratch...);
  }
};

}  // namespace shard8::kernels

namespace shard8::kernels {

/// Bits of max(after/before, before/after), which is at least 1; 0 unless both are positive and finite.
KOKKOS_INLINE_FUNCTION std::int32_t scale_change(float before, float after) {
  constexpr float kNone = 0;
  const bool numbers = before > 0 && after > 0 && before <= FLT_MAX && after <= FLT_MAX;
  const float factor = before > after ? before / after : after / before;
  return std::bit_cast<std::int32_t>(numbers ? factor : kNone);
}

/// The largest change so far, as bits, after a scale changed from `before` to `after`. so_far is 0 before the first
/// scale is known; `before` is then not compared and the result is the bits of 1.
KOKKOS_INLINE_FUNCTION std::int32_t largest_change(std::int32_t so_far, float before, float after) {
  if (so_far == 0) return std::bit_cast<std::int32_t>(1.0f);
  const std::int32_t now = scale_change(before, after);
  return now > so_far ? now : so_far;
}

/// The scales of blocks of 128 elements cast to Q, from the bits of an amax.
template <class Q>
struct WideBlocks {
  using Format = Q;
  using Inverse = float;
  static constexpr std::int64_t kBlock = 128;

  KOKKOS_INLINE_FUNCTION static float scale(std::int32_t amax, bool power_of_2) {
    return scale_from_amax(std::bit_cast<float>(amax), {Q::kMax, 0, power_of_2}, 1.0f);
  }
  KOKKOS_INLINE_FUNCTION static float inverse(std::int32_t, float scale) { return 1.0f / scale; }
};

/// The scales of blocks of 32 elements: 2^e with the smallest e in [−127, 127] that is not below log2(amax/448); NaN
/// for a block with a NaN.
struct NarrowBlocks {
  using Format = tensor::E4M3;
  using Inverse = tensor::E8M0;
  static constexpr std::int64_t kBlock = 32;

  /// e + 127, 255 for NaN.
  KOKKOS_INLINE_FUNCTION static std::uint32_t exponent(std::int32_t amax) {
    const auto bits = std::bit_cast<std::uint32_t>(std::bit_cast<float>(amax) / tensor::E4M3::kMax);
    const std::uint32_t rounded_up = (bits + 0x007fffffu) >> 23;
    const std::uint32_t capped = rounded_up < 254u ? rounded_up : 254u;
    const std::uint32_t finite = bits <= 0x00400000u ? 0u : capped;
    return bits > kInfinityBits ? 255u : finite;
  }
  /// 2^−e; subnormal for the two largest e.
  KOKKOS_INLINE_FUNCTION static float scale(std::int32_t amax, bool) {
    const std::uint32_t e = exponent(amax);
    return std::bit_cast<float>(e < 254u ? (254u - e) << 23 : 0x00400000u >> (e - 254u));
  }
  KOKKOS_INLINE_FUNCTION static tensor::E8M0 inverse(std::int32_t amax, float) {
    return tensor::E8M0(static_cast<std::uint8_t>(exponent(amax)));
  }
};

/// The change from the inverse scale in memory to a new inverse scale, as scale_change(), if both are normal numbers;
/// else 0. (Memory that was never written seldom holds a normal number.)
template <class Inverse>
KOKKOS_INLINE_FUNCTION std::int32_t block_scale_change(Inverse before, Inverse after) {
  const auto old_value = static_cast<float>(before), new_value = static_cast<float>(after);
  const std::int32_t change = scale_change(old_value, new_value);
  return old_value >= FLT_MIN && new_value >= FLT_MIN ? change : 0;
}

/// Writes the inverse scale of a block. Returns by how much it changed, as block_scale_change(), if `compare`; else 0.
template <class Inverse>
KOKKOS_INLINE_FUNCTION std::int32_t write_block_scale(Inverse& place, Inverse inverse, bool compare) {
  const std::int32_t change = compare ? block_scale_change(place, inverse) : 0;
  place = inverse;
  return change;
}

}  // namespace shard8::kernels
