// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Macros.hpp>
#include <cstdint>

#include "kernels/check/arguments.hpp"
#include "kernels/kokkos/loops.hpp"
#include "kernels/moe.hpp"

/// What the kernels of MoE layers share: the table of a dispatch, and loops over short rows, one warp of a device for
/// each row. Sums over a row have one order on hosts and on devices: thread l of 32 adds the elements l, l + 32, and so
/// on, and the 32 sums are added as a tree.
namespace shard8::kernels {

/// What MoeDispatch::table has, for N ranks, E experts and all rounds. The order of a receiver's rows is that of
/// kernels/moe.hpp.
struct DispatchTable {
  std::int32_t* begin;  ///< (N, E): where a rank's rows for an expert begin among its sorted rows
  std::int32_t* place;  ///< (E, N): where a rank's rows for an expert begin in the order of the expert's rank
  std::int32_t*
      bounds;  ///< (rounds + 1, N): where this rank's sorted rows for a rank begin that are of round k or later
  const std::int32_t* counts;  ///< (N, E)
  std::int64_t round_rows;
  int ranks, rank, experts, local, rounds;

  explicit DispatchTable(const MoeDispatch& d)
      : begin(d.table.as<std::int32_t>()),
        place(begin + d.ranks() * d.experts()),
        bounds(place + d.ranks() * d.experts()),
        counts(d.counts.as<std::int32_t>()),
        round_rows(d.round_rows),
        ranks(d.ranks()),
        rank(d.rank),
        experts(static_cast<int>(d.experts())),
        local(static_cast<int>(d.local())),
        rounds(static_cast<int>(d.rounds())) {}

  /// Where the rows of an expert end in the order of its rank, and its padding begins.
  KOKKOS_FORCEINLINE_FUNCTION std::int64_t end_of(std::int64_t expert) const {
    const std::int64_t last = ranks - 1;
    return place[expert * ranks + last] + std::int64_t{counts[last * experts + expert]};
  }
};

/// The number of the last element, of `count` ascending ones, that is at most `value`. The first one must be.
KOKKOS_FORCEINLINE_FUNCTION int last_at_most(const std::int32_t* ascending, int count, std::int64_t value) {
  int first = 0, n = count;
  while (n > 1) {
    const int half = n / 2;
    if (ascending[first + half] <= value) {
      first += half;
      n -= half;
    } else {
      n = half;
    }
  }
  return first;
}

/// Throws Error(failed) unless the tensors and numbers of a dispatch fit each other.
inline void require_dispatch(const char* kernel, const MoeDispatch& d) {
  const std::int64_t ranks = d.counts.rows(), experts = d.counts.cols();
  SHARD8_REQUIRE(ranks >= 1 && ranks <= kMostDispatchRanks && d.rank >= 0 && d.rank < ranks,
                 "{}: rank {} of {}; allowed are up to {} ranks", kernel, d.rank, ranks, kMostDispatchRanks);
  SHARD8_REQUIRE(experts >= ranks && experts % ranks == 0 && d.local() == experts / ranks,
                 "{}: {} experts on {} ranks, {} of them on this rank; each rank must hold as many", kernel, experts,
                 ranks, d.local());
  SHARD8_REQUIRE(d.multiple == 1 || d.multiple == 16 || d.multiple == 32 || d.multiple == 128,
                 "{}: rows padded to a multiple of {}; allowed are 1, 16, 32 and 128", kernel, d.multiple);
  SHARD8_REQUIRE(d.round_rows >= 0 && d.round_rows % d.multiple == 0, "{}: rounds of {} rows, not a multiple of {}",
                 kernel, d.round_rows, d.multiple);
  require_count(kernel, "rows", d.rows, d.first.count());
  require_count(kernel, "end", d.end, d.rounds());
  require_count(kernel, "table", d.table, moe_dispatch_table_count(d.ranks(), experts, d.rounds()));
}

/// As require_dispatch; the dispatch must also have a round of this number.
inline void require_round(const char* kernel, const MoeDispatch& d, std::int64_t round) {
  require_dispatch(kernel, d);
  SHARD8_REQUIRE(round >= 0 && round < d.rounds(), "{}: round {} of {}", kernel, round, d.rounds());
}

/// As require_round; the round must also have this part.
inline void require_part(const char* kernel, const MoeDispatch& d, const DispatchPart& part) {
  require_round(kernel, d, part.round);
  SHARD8_REQUIRE(part.first >= 0 && part.experts >= 0 && part.first + part.experts <= d.local(),
                 "{}: experts {} to {} of {} on a rank", kernel, part.first, part.first + part.experts, d.local());
  SHARD8_REQUIRE(part.multiprocessors >= 0, "{}: at most {} multiprocessors", kernel, part.multiprocessors);
}

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
