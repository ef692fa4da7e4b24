// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/kokkos/emit.hpp"
#include "kernels/kokkos/loops.hpp"
#include "kernels/kokkos/norm_made.hpp"

namespace shard8::kernels {

/// What the forward of a norm reads and writes; mean and bias of LayerNorm alone.
template <class T>
struct NormForward {
  float *mean, *rstd;
  const T *x, *weight, *bias;
  std::int64_t hidden;
  float eps;
};

/// The elements at i of a row of the result, rounded, of what x is there.
template <bool kCentred, class T, class W>
KOKKOS_FORCEINLINE_FUNCTION auto norm_lanes(const NormForward<T>& at, const W& w, std::int64_t i,
                                            const typename W::template Lanes<T>& v, float m, float r) {
  typename W::template Lanes<T> bias{};
  if constexpr (kCentred) bias = w.load(at.bias, i);
  return norm_made<kCentred, T>(w, v, w.load(at.weight, i), bias, m, r);
}

/// A row of 16-bit elements by a warp of a device, which has all of it in registers and waits for no other warp. Weight
/// and bias are in shared memory: what is loaded later, even from the cache, comes after the rows of other warps.
template <class T, class E, bool kCentred>
struct NormForwardWarps {
  static constexpr int kN = kPack<T>, kMost = 16, kWarps = 4;
  static constexpr std::int64_t kStride = 32 * kN;  ///< elements of a pack of each thread
  using Width = Packed<kN, 1>;
  using Lanes = typename Width::template Lanes<T>;
  using Row = Lanes[kMost];
  using Bounds = Kokkos::LaunchBounds<32 * kWarps, 16 / kWarps>;

  struct Scratch {
    Words<16> weight[kMost][32];
    Words<16> bias[kCentred ? kMost : 1][32];
  };

  Emitter<E> y;
  NormForward<T> at;
  std::int64_t rows;

  /// Whether threads of a warp can have this many columns.
  static bool has(std::int64_t hidden) { return hidden % kStride == 0 && hidden <= kMost * kStride; }

  template <class AnyMember>
  KOKKOS_INLINE_FUNCTION void operator()(const AnyMember& team, std::int64_t index, Scratch& scratch) const {
    const auto rank = static_cast<unsigned>(team.team_rank());
    const int warp = static_cast<int>(rank / 32), lane = static_cast<int>(rank % 32);
    const std::int64_t row = index * kWarps + warp, first = static_cast<std::int64_t>(lane) * kN;
    const int packs = static_cast<int>(at.hidden / kStride);
    const Sink<E> out = y.open(team, index);
    const Width w{0};
    for (int p = warp; p < packs; p += kWarps) {
      scratch.weight[p][lane] = load_words<16>(at.weight + first + p * kStride);
      if constexpr (kCentred) scratch.bias[p][lane] = load_words<16>(at.bias + first + p * kStride);
    }
    const T* const of_row = at.x + (row < rows ? row : rows - 1) * at.hidden;
    Row v;
    SHARD8_UNROLL
    for (int p = 0; p < kMost; ++p) {
      if (p < packs) v[p] = w.load(of_row, first + p * kStride);
    }
    const auto count = static_cast<float>(at.hidden);
    float m = 0;
    if constexpr (kCentred) m = total(v, packs, [](float x) { return x; }) / count;
    const float squares = total(v, packs, [m](float x) { return (x - m) * (x - m); });
    const float r = 1.0f / Kokkos::sqrt(squares / count + at.eps);
    team.team_barrier();
    CastStats stats;
    if (row < rows) {
      if (lane == 0) {
        if constexpr (kCentred) at.mean[row] = m;
        at.rstd[row] = r;
      }
      stats = put_row(out.from(row * at.hidden), scratch, v, of_row, lane, packs, m, r);
    }
    if constexpr (E::kStats) out.totals.add(team, stats);
  }

 private:
  /// Pack p of the result, rounded.
  KOKKOS_FORCEINLINE_FUNCTION static Lanes made(const Scratch& scratch, int p, int lane, const Lanes& x, float m,
                                                float r) {
    Lanes bias{};
    if constexpr (kCentred) bias = {{scratch.bias[p][lane]}};
    return norm_made<kCentred, T>(Width{0}, x, Lanes{{scratch.weight[p][lane]}}, bias, m, r);
  }
  /// A row that may saturate is made twice: code to count that in each pack would not fit the instruction caches.
  KOKKOS_FORCEINLINE_FUNCTION CastStats put_row(const Sink<E>& out, const Scratch& scratch, const Row& v, const T* x,
                                                int lane, int packs, float m, float r) const {
    const Width w{0};
    const std::int64_t first = static_cast<std::int64_t>(lane) * kN;
    [[maybe_unused]] std::uint32_t pair = 0;
    CastStats stats;
    SHARD8_UNROLL
    for (int p = 0; p < kMost; ++p) {
      if (p >= packs) continue;
      const std::int64_t i = first + p * kStride;
      const Lanes lanes = made(scratch, p, lane, v[p], m, r);
      if constexpr (E::kCast) {
        stats.flushed += out.put_unsaturated(w, i, lanes, pair);
      } else {
        stats += out.put(w, i, lanes);
      }
    }
    if constexpr (E::kCast) {
      stats.amax = magnitude_of(pair);
      if (!may_saturate<typename E::Format>(pair, out.scale)) return stats;
      SHARD8_NO_UNROLL
      for (int p = 0; p < packs; ++p) {
        const std::int64_t i = first + p * kStride;
        const CastStats again = out.put(w, i, made(scratch, p, lane, w.load(x, i), m, r));
        stats.saturated += again.saturated;
        stats.amax = again.amax > stats.amax ? again.amax : stats.amax;
      }
    }
    return stats;
  }
  /// Σ f(x) of a row.
  template <class F>
  KOKKOS_FORCEINLINE_FUNCTION static float total(const Row& v, int packs, const F& f) {
    float part[kN] = {};
    SHARD8_UNROLL
    for (int p = 0; p < kMost; ++p) {
      if (p < packs) {
        SHARD8_UNROLL
        for (int j = 0; j < kN; ++j) part[j] += f(v[p][j]);
      }
    }
    SHARD8_UNROLL
    for (int step = kN / 2; step > 0; step /= 2) {
      SHARD8_UNROLL
      for (int k = 0; k < step; ++k) part[k] += part[k + step];
    }
    return warp_sum(part[0]);
  }
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
    if constexpr (!E::kCast) return yr.put(w, i, norm_lanes<kCentred>(at, w, i, v, m, r));
    CastStats stats;  // a pack at a time, as registers allow
    const Packed<kN, 1> one{0};
    SHARD8_UNROLL
    for (int u = 0; u < kPacks; ++u) {
      const std::int64_t first = i + u * w.stride;
      stats += yr.put(one, first, norm_lanes<kCentred>(at, one, first, {{v.pack[u]}}, m, r));
    }
    return stats;
  }
};

/// Whether a device did it, by NormForwardWarps or NormForwardRows: not on hosts, nor where packs do not fit.
template <bool kCentred, class T, class E>
bool norm_forward_rows(const Exec& exec, const char* label, const Emitter<E>& y, const NormForward<T>& at,
                       std::int64_t rows, bool fits) {
  if constexpr (kHostExec) {
    return false;
  } else {
    if constexpr (sizeof(T) == 2) {
      using Warps = NormForwardWarps<T, E, kCentred>;
      if (fits && Warps::has(at.hidden)) {
        for_rows_with<typename Warps::Scratch, typename Warps::Bounds>(
            exec, label, (rows + Warps::kWarps - 1) / Warps::kWarps, Warps{y, at, rows}, 32 * Warps::kWarps);
        return true;
      }
    }
    using Rows = NormForwardRows<T, E, kCentred>;
    const int threads = Rows::threads(at.hidden);
    if (threads == 0 || !fits) return false;
    for_rows<typename Rows::Bounds>(exec, label, (rows + Rows::kRows - 1) / Rows::kRows, Rows{y, at, rows}, threads);
    return true;
  }
}

}  // namespace shard8::kernels
