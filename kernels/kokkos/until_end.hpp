// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>

#include "kernels/check/arguments.hpp"
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
