// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <type_traits>

#include "kernels/check/arguments.hpp"
#include "kernels/kokkos/loops.hpp"
#include "kernels/moe.hpp"

namespace shard8::kernels {
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

  /// Of the rank `to`, whose experts' rows lie one behind the other, each expert's by the ranks that send them.
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
