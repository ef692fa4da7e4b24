// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>

#include "kernels/kokkos/loops.hpp"
#include "kernels/kokkos/team_sums.hpp"
#include "kernels/quantize.hpp"

/// What casts to 8 bits count, and how the threads of a kernel add up their counts.
namespace shard8::kernels {

/// What a stretch of elements adds to an amax and to CastCounts. A stretch is so short that its counts fit 32 bits.
struct CastStats {
  std::int32_t amax = 0;
  std::int32_t saturated = 0;
  std::int32_t flushed = 0;

  KOKKOS_INLINE_FUNCTION CastStats& operator+=(const CastStats& other) {
    amax = other.amax > amax ? other.amax : amax;
    saturated += other.saturated;
    flushed += other.flushed;
    return *this;
  }
};

/// Where a kernel adds the stats of its rows; a null pointer means nowhere. add() is called once for a row or a stretch
/// of a few thousand elements, so its atomics take no noticeable time.
struct CastTotals {
  std::int32_t* amax = nullptr;
  CastCounts* counts = nullptr;
  std::int32_t before = 0;  ///< on devices: the amax when seen() was called

  /// A copy that, on a device, holds the present amax, read by the team's first thread. An amax only grows, so add()
  /// can skip the atomic if its own amax is no larger. seen() is called before the work, so that no thread waits for
  /// the read at the end.
  KOKKOS_INLINE_FUNCTION CastTotals seen(const HostTeam&) const { return *this; }
  template <class AnyMember>
  KOKKOS_INLINE_FUNCTION CastTotals seen([[maybe_unused]] const AnyMember& team) const {
    CastTotals totals = *this;
#if defined(__CUDA_ARCH__)
    if (amax != nullptr && team.team_rank() == 0) totals.before = *static_cast<const volatile std::int32_t*>(amax);
#endif
    return totals;
  }

  KOKKOS_INLINE_FUNCTION void add(const CastStats& row) const {
    if (amax != nullptr && row.amax > so_far()) Kokkos::atomic_max(amax, row.amax);
    if (counts == nullptr) return;
    if (row.saturated != 0) Kokkos::atomic_add(&counts->saturated, static_cast<std::uint64_t>(row.saturated));
    if (row.flushed != 0) Kokkos::atomic_add(&counts->flushed, static_cast<std::uint64_t>(row.flushed));
  }
  /// Adds the parts of all threads of a team. A team calls it once.
  KOKKOS_INLINE_FUNCTION void add(const HostTeam&, const CastStats& part) const { add(part); }
  template <class AnyMember>
  KOKKOS_INLINE_FUNCTION void add(const AnyMember& team, const CastStats& part) const {
    if (amax == nullptr && counts == nullptr) return;
    CastStats total;
#if defined(__CUDA_ARCH__)
    // Atomics to one address run one after the other: one for the team, not one for each warp.
    __shared__ std::int32_t of_warp[3][32];
    const unsigned rank = team.team_rank(), lane = rank % 32, warp = rank / 32, warps = team.team_size() / 32;
    total.amax = __reduce_max_sync(0xffffffffu, part.amax);
    if (lane == 0) of_warp[0][warp] = total.amax;
    const bool counted = any_of_team(team, (part.saturated | part.flushed) != 0);
    if (counted) {
      total.saturated = __reduce_add_sync(0xffffffffu, part.saturated);
      total.flushed = __reduce_add_sync(0xffffffffu, part.flushed);
      if (lane == 0) of_warp[1][warp] = total.saturated;
      if (lane == 0) of_warp[2][warp] = total.flushed;
      team.team_barrier();
    }
    if (warp != 0) return;
    const bool is = lane < warps;
    total.amax = __reduce_max_sync(0xffffffffu, is ? of_warp[0][lane] : 0);
    if (counted) {
      total.saturated = __reduce_add_sync(0xffffffffu, is ? of_warp[1][lane] : 0);
      total.flushed = __reduce_add_sync(0xffffffffu, is ? of_warp[2][lane] : 0);
    }
    if (rank == 0) add(total);
#else
    total = part;
    team.team_reduce(Kokkos::Max<std::int32_t>(total.amax));
    team.team_reduce(Kokkos::Sum<std::int32_t>(total.saturated));
    team.team_reduce(Kokkos::Sum<std::int32_t>(total.flushed));
    once(team, [&] { add(total); });
#endif
  }

 private:
  KOKKOS_INLINE_FUNCTION std::int32_t so_far() const {
#if defined(__CUDA_ARCH__)
    return before;
#else
    return Kokkos::atomic_load(amax);
#endif
  }
};

}  // namespace shard8::kernels
