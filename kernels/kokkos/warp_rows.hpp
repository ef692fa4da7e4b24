// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/kokkos/loops.hpp"

/// Loops over short rows, one warp of a device for each row. Sums have one order on hosts and on devices: thread l of
/// 32 adds the elements l, l + 32, and so on, and the 32 sums are added as a tree.
namespace shard8::kernels {

inline constexpr int kWarp = 32;

/// Calls f(team, row) for row in [0, rows). On a device the team is one warp.
template <class F>
void for_warp_rows(const Exec& exec, const char* label, std::int64_t rows, const F& f) {
  for_rows(exec, label, rows, f, kWarp);
}

/// A warp of a larger thread block, as a team.
struct WarpOfBlock {
  int rank;
  KOKKOS_FORCEINLINE_FUNCTION int team_rank() const { return rank; }
  KOKKOS_FORCEINLINE_FUNCTION static constexpr int team_size() { return kWarp; }
};

/// Calls f(team, row) for the row of each warp of a thread block.
template <class F>
struct RowsOfBlockWarps {
  F f;
  std::int64_t rows;
  KOKKOS_INLINE_FUNCTION void operator()(const Member& team) const {
    const std::int64_t row = std::int64_t{team.league_rank()} * (team.team_size() / kWarp) + team.team_rank() / kWarp;
    if (row < rows) f(WarpOfBlock{team.team_rank() % kWarp}, row);
  }
};

/// As for_warp_rows, for kernels without sums over a team. On a device every thread block has 32 warps, the most that a
/// block can have. So the rows run on at most rows/32 multiprocessors, rounded up.
template <class F>
void for_warp_rows_in_large_blocks(const Exec& exec, const char* label, std::int64_t rows, const F& f) {
  if constexpr (kHostExec) {
    for_rows(exec, label, rows, f);
  } else {
    if (rows <= 0) return;
    constexpr int kThreads = 1024;  // the most that a team can have
    const std::int64_t warps = kThreads / kWarp;
    Kokkos::parallel_for(label_of(label),
                         team_policy<Kokkos::LaunchBounds<kThreads, 1>>(exec, (rows + warps - 1) / warps, kThreads),
                         RowsOfBlockWarps<F>{f, rows});
  }
}

/// Σ f(i) for i in [0, n), returned to the whole team of for_warp_rows.
template <class F>
KOKKOS_INLINE_FUNCTION float warp_row_sum(const HostTeam&, std::int64_t n, const F f) {
  float part[kWarp] = {};
  for (std::int64_t first = 0; first < n; first += kWarp) {
    const std::int64_t rest = n - first, lanes = rest < kWarp ? rest : kWarp;
#pragma omp simd
    for (std::int64_t l = 0; l < lanes; ++l) part[l] += f(first + l);
  }
  for (int step = kWarp / 2; step > 0; step /= 2) {
    for (int l = 0; l < step; ++l) part[l] += part[l + step];
  }
  return part[0];
}
template <class AnyMember, class F>
KOKKOS_INLINE_FUNCTION float warp_row_sum(const AnyMember& team, std::int64_t n, const F& f) {
  float sum = 0;
  row_for(team, n, [&](std::int64_t i) { sum += f(i); });
  return warp_sum(sum);
}

/// max f(i) for i in [0, n), without regard to NaN, returned to the whole team of for_warp_rows; −inf if there is none.
template <class F>
KOKKOS_INLINE_FUNCTION float warp_row_max(const HostTeam&, std::int64_t n, const F f) {
  float largest = Larger::kNone;
#pragma omp simd reduction(max : largest)
  for (std::int64_t i = 0; i < n; ++i) largest = f(i) > largest ? f(i) : largest;
  return largest;
}
template <class AnyMember, class F>
KOKKOS_INLINE_FUNCTION float warp_row_max(const AnyMember& team, std::int64_t n, const F& f) {
  float largest = Larger::kNone;
  row_for(team, n, [&](std::int64_t i) { largest = Larger{}(largest, f(i)); });
  return warp_larger(largest);
}

/// The largest of the integers f(i) for i in [0, n), returned to the whole team of for_warp_rows; 0 if there is none.
template <class F>
KOKKOS_INLINE_FUNCTION std::uint64_t warp_row_largest(const HostTeam&, std::int64_t n, const F f) {
  std::uint64_t largest = 0;
#pragma omp simd reduction(max : largest)
  for (std::int64_t i = 0; i < n; ++i) largest = f(i) > largest ? f(i) : largest;
  return largest;
}
template <class AnyMember, class F>
KOKKOS_INLINE_FUNCTION std::uint64_t warp_row_largest(const AnyMember& team, std::int64_t n, const F& f) {
  std::uint64_t largest = 0;
  row_for(team, n, [&](std::int64_t i) { largest = f(i) > largest ? f(i) : largest; });
  return warp_larger(largest);
}

}  // namespace shard8::kernels
