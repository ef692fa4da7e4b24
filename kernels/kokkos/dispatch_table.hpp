// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Macros.hpp>
#include <cstdint>

#include "kernels/check/arguments.hpp"
#include "kernels/moe.hpp"

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

}  // namespace shard8::kernels
