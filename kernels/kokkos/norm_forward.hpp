// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/kokkos/emit.hpp"
#include "kernels/kokkos/fast_math.hpp"
#include "kernels/kokkos/loops.hpp"

namespace shard8::kernels {

/// What the forward of a norm reads and writes; mean and bias of LayerNorm alone.
template <class T>
struct NormForward {
  float *mean, *rstd;
  const T *x, *weight, *bias;
  std::int64_t hidden;
  float eps;
};

/// A few rows by a team of a device, whose threads have 16 elements of a row in registers: it is read once, and
/// the next one is on its way meanwhile.
template <class T, class E, bool kCentred>
struct NormForwardRows {
  static constexpr int kN = kPack<T>, kPacks = 16 / kN;
  static constexpr std::int64_t kRows = E::kStats || kCentred ? 8 : 1;  ///< as measured
  using Width = Packed<kN, kPacks>;
  using Lanes = typename Width::template Lanes<T>;

  Emitter<E> y;
  NormForward<T> at;
  std::int64_t rows;

  /// The most threads of a team, and registers for a few teams at once.
  static constexpr int kMost = 512;
  using Bounds = Kokkos::LaunchBounds<kMost, sizeof(T) == 2 ? 2 : 1>;
  /// Threads of a team for this many columns; 0 if they would not have all of them, or not all 16.
  static int threads(std::int64_t hidden) {
    const std::int64_t needed = hidden / (kN * kPacks);
    return hidden % (kN * kPacks * 32) == 0 && needed <= kMost ? static_cast<int>(needed) : 0;
  }

  template <class AnyMember>
  KOKKOS_INLINE_FUNCTION void operator()(const AnyMember& team, std::int64_t index) const {
    const Width w{static_cast<std::int64_t>(team.team_size()) * kN};
    const std::int64_t i = static_cast<std::int64_t>(team.team_rank()) * kN, first = index * kRows;
    Lanes next = w.load(at.x + first * at.hidden, i);
    const Sink<E> out = y.open(team, index);
    CastStats stats;
    if constexpr (kRows == 1) {
      stats = row_of(team, out, next, first, w, i);
    } else {
      const std::int64_t last = first + kRows < rows ? first + kRows : rows;
      for (std::int64_t row = first; row < last; ++row) {
        const Lanes now = next;
        if (row + 1 < last) next = w.load(at.x + (row + 1) * at.hidden, i);
        stats += row_of(team, out, now, row, w, i);
      }
    }
    if constexpr (E::kStats) out.totals.add(team, stats);
  }

 private:
  template <class AnyMember>
  KOKKOS_FORCEINLINE_FUNCTION CastStats row_of(const AnyMember& team, const Sink<E>& out, const Lanes& v,
                                               std::int64_t row, const Width& w, std::int64_t i) const {
    const auto count = static_cast<float>(at.hidden);
    float m = 0;
    if constexpr (kCentred) m = team_total(team, w.sum([&](int j) { return v[j]; }), Add{}, 0) / count;
    const int slot = kCentred || kRows == 1 ? 1 : static_cast<int>(row % 2);
    const float squares = team_total(team, w.sum([&](int j) { return (v[j] - m) * (v[j] - m); }), Add{}, slot);
    const float r = 1.0f / Kokkos::sqrt(squares / count + at.eps);
    if (team.team_rank() == 0) {
      if constexpr (kCentred) at.mean[row] = m;
      at.rstd[row] = r;
    }
    const Sink<E> yr = out.from(row * at.hidden);
    const Lanes g = w.load(at.weight, i);
    if constexpr (kCentred) {
      const Lanes b = w.load(at.bias, i);
      return yr.put(w, i, w.each([&](int j) { return multiply_add((v[j] - m) * r, g[j], b[j]); }));
    } else {
      const Lanes normed = w.template round<T>(w.each([&](int j) { return v[j] * r; }));
      return yr.put(w, i, w.each([&](int j) { return g[j] * normed[j]; }));
    }
  }
};

/// Whether a device did it by NormForwardRows: not on hosts, nor where packs do not fit.
template <bool kCentred, class T, class E>
bool norm_forward_rows(const Exec& exec, const char* label, const Emitter<E>& y, const NormForward<T>& at,
                       std::int64_t rows, bool fits) {
  if constexpr (kHostExec) {
    return false;
  } else {
    using Rows = NormForwardRows<T, E, kCentred>;
    const int threads = Rows::threads(at.hidden);
    if (threads == 0 || !fits) return false;
    for_rows<typename Rows::Bounds>(exec, label, (rows + Rows::kRows - 1) / Rows::kRows, Rows{y, at, rows}, threads);
    return true;
  }
}

}  // namespace shard8::kernels
