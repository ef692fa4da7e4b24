// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/kokkos/moe_common.hpp"

#include <type_traits>

#include "kernels/check/arguments.hpp"
#include "kernels/kokkos/loops.hpp"
#include "kernels/moe.hpp"

namespace shard8::kernels {
namespace {

/// One team finds the rounds. Each part of its work reads what the part before has written.
struct Rounds {
  static constexpr int kAtOnce = 8;
  DispatchTable table;
  std::int64_t multiple;
  std::int32_t *first, *rows, *end;

  KOKKOS_FORCEINLINE_FUNCTION std::int64_t padded(std::int64_t n) const {
    return (n + multiple - 1) / multiple * multiple;
  }
  KOKKOS_FORCEINLINE_FUNCTION static std::int64_t clamped(std::int64_t x, std::int64_t most) {
    return x < 0 ? 0 : (x < most ? x : most);
  }

  template <class AnyTeam>
  KOKKOS_INLINE_FUNCTION void operator()(const AnyTeam& team, std::int64_t) const {
    const DispatchTable t = table;
    // Until its next part, place[e, 0] is how many padded rows the expert has.
    row_for(team, t.ranks,
            [=](std::int64_t s) { sum_up(t.begin + s * t.experts, t.counts + s * t.experts, t.experts); });
    row_for(team, t.experts, [=, *this](std::int64_t e) {
      std::int64_t n = 0;
      for (int s = 0; s < t.ranks; ++s) n += t.counts[std::int64_t{s} * t.experts + e];
      t.place[e * t.ranks] = static_cast<std::int32_t>(padded(n));
    });
    row_barrier(team);
    row_for(team, t.ranks, [=](std::int64_t to) {
      std::int32_t at = 0;
      for (std::int64_t e = to * t.local; e < (to + 1) * t.local; ++e) {
        const std::int32_t n = t.place[e * t.ranks];
        t.place[e * t.ranks] = at;
        at += n;
      }
    });
    row_barrier(team);
    row_for(team, t.experts, [=](std::int64_t e) {
      std::int32_t at = t.place[e * t.ranks];
      for (int s = 0; s < t.ranks; ++s) {
        t.place[e * t.ranks + s] = at;
        at += t.counts[std::int64_t{s} * t.experts + e];
      }
    });
    row_barrier(team);
    find_bounds(team, t);
    find_rows(team, t);
  }

 private:
  /// Writes the sum of all counts before each count.
  KOKKOS_INLINE_FUNCTION static void sum_up(std::int32_t* sums, const std::int32_t* counts, int n) {
    std::int32_t sum = 0;
    for (int i = 0; i < n; i += kAtOnce) {
      std::int32_t count[kAtOnce];
      SHARD8_UNROLL
      for (int u = 0; u < kAtOnce; ++u) count[u] = i + u < n ? counts[i + u] : 0;
      SHARD8_UNROLL
      for (int u = 0; u < kAtOnce; ++u) {
        if (i + u < n) sums[i + u] = sum;
        sum += count[u];
      }
    }
  }
  template <class AnyTeam>
  KOKKOS_INLINE_FUNCTION void find_bounds(const AnyTeam& team, const DispatchTable& t) const {
    row_for(team, std::int64_t{t.rounds + 1} * t.ranks, [=](std::int64_t i) {
      const std::int64_t round = i / t.ranks, to = i % t.ranks, own = std::int64_t{t.rank} * t.experts;
      std::int64_t n = t.begin[own + to * t.local];
      for (std::int64_t e = to * t.local; e < (to + 1) * t.local; ++e)
        n += clamped(round * t.round_rows - t.place[e * t.ranks + t.rank], t.counts[own + e]);
      t.bounds[i] = static_cast<std::int32_t>(n);
    });
  }
  template <class AnyTeam>
  KOKKOS_INLINE_FUNCTION void find_rows(const AnyTeam& team, const DispatchTable& t) const {
    const std::int64_t of_rank = std::int64_t{t.rank} * t.local;
    const auto begin_of = [=](std::int64_t e) -> std::int64_t { return t.place[(of_rank + e) * t.ranks]; };
    const auto end_of = [=, *this](std::int64_t e) -> std::int64_t {
      return begin_of(e) + padded(t.end_of(of_rank + e) - begin_of(e));
    };
    std::int32_t *const first_row = first, *const count = rows, *const ends = end;
    row_for(team, std::int64_t{t.rounds} * t.local, [=](std::int64_t i) {
      const std::int64_t e = i % t.local, before = i / t.local * t.round_rows;
      const std::int64_t from = clamped(begin_of(e) - before, t.round_rows);
      first_row[i] = static_cast<std::int32_t>(from);
      count[i] = static_cast<std::int32_t>(clamped(end_of(e) - before, t.round_rows) - from);
    });
    row_for(team, t.rounds, [=](std::int64_t k) {
      ends[k] = static_cast<std::int32_t>(clamped(end_of(t.local - 1) - k * t.round_rows, t.round_rows));
    });
  }
};

}  // namespace

std::int64_t moe_dispatch_table_count(int ranks, std::int64_t experts, std::int64_t rounds) {
  return ranks * (2 * experts + rounds + 1);
}

void moe_rounds(const Exec& exec, const MoeDispatch& dispatch) {
  require_dispatch("moe_rounds", dispatch);
  for_rows(exec, "shard8::kernels::moe_rounds", 1,
           Rounds{DispatchTable(dispatch), dispatch.multiple, dispatch.first.as<std::int32_t>(),
                  dispatch.rows.as<std::int32_t>(), dispatch.end.as<std::int32_t>()});
}

namespace {

/// One team counts; a thread of a device takes whole ranks.
struct Count {
  std::int32_t* sums;
  const std::int32_t* counts;
  std::int64_t experts, round_rows, multiple;
  int ranks, rank;

  struct Rows {
    std::int64_t received = 0;  ///< rows that a rank receives
    std::int64_t padded = 0;    ///< the same rows with padding
    std::int64_t further = 0;   ///< received rows that this rank sends after the first round
  };

  template <class AnyTeam>
  KOKKOS_INLINE_FUNCTION void operator()(const AnyTeam& team, std::int64_t) const {
    std::int32_t* const totals = sums;
    const std::int32_t* const own = counts + rank * experts;
    row_for(team, experts, [=](std::int64_t e) { totals[e] += own[e]; });
    std::int32_t most = 0, most_padded = 0;
    for (int to = first_of(team); to < ranks; to += stride_of(team)) {
      const Rows rows = rows_of(to);
      if (rows.received > most) most = static_cast<std::int32_t>(rows.received);
      if (rows.padded > most_padded) most_padded = static_cast<std::int32_t>(rows.padded);
      Kokkos::atomic_add(at(MoeSum::further), static_cast<std::int32_t>(rows.further));
      if (to == rank) *at(MoeSum::received) += static_cast<std::int32_t>(rows.received);
    }
    most = largest_of(team, most);
    most_padded = largest_of(team, most_padded);
    const auto rounds = most_padded == 0 ? 0 : static_cast<std::int32_t>((most_padded + round_rows - 1) / round_rows);
    once(team, [=, *this] {
      *at(MoeSum::busiest) += most;
      *at(MoeSum::rounds) += rounds;
      if (rounds > *at(MoeSum::most_rounds)) *at(MoeSum::most_rounds) = rounds;
    });
  }

 private:
  // Where a thread begins among the ranks, its stride, and the largest of all threads' values.
  template <class AnyTeam>
  KOKKOS_INLINE_FUNCTION static int first_of([[maybe_unused]] const AnyTeam& team) {
    if constexpr (std::is_same_v<AnyTeam, HostTeam>)
      return 0;
    else
      return team.team_rank();
  }
  template <class AnyTeam>
  KOKKOS_INLINE_FUNCTION static int stride_of([[maybe_unused]] const AnyTeam& team) {
    if constexpr (std::is_same_v<AnyTeam, HostTeam>)
      return 1;
    else
      return team.team_size();
  }
  template <class AnyTeam>
  KOKKOS_INLINE_FUNCTION static std::int32_t largest_of([[maybe_unused]] const AnyTeam& team, std::int32_t value) {
    if constexpr (std::is_same_v<AnyTeam, HostTeam>)
      return value;
    else
      return team_largest(team, value);
  }

  KOKKOS_FORCEINLINE_FUNCTION std::int32_t* at(MoeSum sum) const { return sums + experts + static_cast<int>(sum); }

  /// The rows of the rank `to`. The rows of the rank's experts lie one behind the other, the rows of each expert by the
  /// ranks that send them.
  KOKKOS_INLINE_FUNCTION Rows rows_of(int to) const {
    Rows rows;
    const std::int64_t local = experts / ranks;
    for (std::int64_t e = to * local; e < (to + 1) * local; ++e) {
      std::int64_t all = 0, before = 0;
      for (int from = 0; from < ranks; ++from) {
        if (from == rank) before = all;
        all += counts[from * experts + e];
      }
      const std::int64_t own = counts[rank * experts + e], end = rows.padded + before + own;
      const std::int64_t behind = end - round_rows;
      rows.further += behind < 0 ? 0 : (behind < own ? behind : own);
      rows.received += all;
      rows.padded += (all + multiple - 1) / multiple * multiple;
    }
    return rows;
  }
};

}  // namespace

void moe_count(const Exec& exec, const tensor::Tensor& sums, const tensor::Tensor& counts, const MoeRounds& rounds) {
  constexpr auto kName = "moe_count";
  const std::int64_t ranks = counts.rows(), experts = counts.cols();
  require_count(kName, "sums", sums, experts + kMoeSums);
  SHARD8_REQUIRE(ranks >= 1 && experts % ranks == 0 && rounds.rank >= 0 && rounds.rank < ranks,
                 "{}: rank {} of {} with {} experts; each rank must hold as many", kName, rounds.rank, ranks, experts);
  SHARD8_REQUIRE(rounds.round_rows >= 0 && rounds.multiple >= 1, "{}: rounds of {} rows, padded to a multiple of {}",
                 kName, rounds.round_rows, rounds.multiple);
  const std::int64_t round_rows = rounds.round_rows > 0 ? rounds.round_rows : 1;  // no rows: no round is divided by
  for_rows(exec, "shard8::kernels::moe_count", 1,
           Count{sums.as<std::int32_t>(), counts.as<std::int32_t>(), experts, round_rows, rounds.multiple,
                 static_cast<int>(ranks), rounds.rank});
}

}  // namespace shard8::kernels
