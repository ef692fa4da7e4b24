// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "tensor/exec.hpp"

/// The few shapes of loop that the portable kernels are made of. A GPU spreads a row over the
/// threads of a team; a host thread takes whole rows and runs along them in vector code. The
/// `omp simd` pragmas let the compiler reorder the one sum that they name, in a way that depends on
/// the build alone, never on the number of threads.
namespace shard8::kernels {

using tensor::Exec;

inline constexpr bool kHostExec = Kokkos::SpaceAccessibility<Kokkos::HostSpace, Exec::memory_space>::accessible;
using Range = Kokkos::RangePolicy<Exec, Kokkos::IndexType<std::int64_t>>;

/// A host thread, as the team of one that has a row to itself.
struct HostTeam {};
using Team = std::conditional_t<kHostExec, HostTeam, Kokkos::TeamPolicy<Exec>::member_type>;

/// f(i) for i in [0, n); iterations may alias only at equal i.
template <class F>
void for_each(const Exec& exec, const char* label, std::int64_t n, const F& f) {
  if (n <= 0) return;
  if constexpr (kHostExec) {
    constexpr std::int64_t kBlock = 2048;
    Kokkos::parallel_for(label, Range(exec, 0, (n + kBlock - 1) / kBlock), [=](std::int64_t block) {
      const F g = f;
      const std::int64_t first = block * kBlock, last = std::min(first + kBlock, n);
#pragma omp simd
      for (std::int64_t i = first; i < last; ++i) g(i);
    });
  } else {
    Kokkos::parallel_for(label, Range(exec, 0, n), f);
  }
}

/// f(team, row) for row in [0, rows), by Kokkos teams.
template <class F>
void team_rows(const Exec& exec, const char* label, std::int64_t rows, const F& f) {
  using Policy = Kokkos::TeamPolicy<Exec>;
  Kokkos::parallel_for(
      label, Policy(exec, static_cast<int>(rows), Kokkos::AUTO),
      KOKKOS_LAMBDA(const Policy::member_type& team) { f(team, static_cast<std::int64_t>(team.league_rank())); });
}

/// f(team, row) for row in [0, rows).
template <class F>
void for_rows(const Exec& exec, const char* label, std::int64_t rows, const F& f) {
  if (rows <= 0) return;
  if constexpr (kHostExec) {
    Kokkos::parallel_for(label, Range(exec, 0, rows), [=](std::int64_t row) { f(HostTeam{}, row); });
  } else {
    team_rows(exec, label, rows, f);
  }
}

/// f(team, row, scratch) by Kokkos teams, each with a Scratch in its fast memory.
template <class Scratch, class F>
void team_rows_with(const Exec& exec, const char* label, std::int64_t rows, const F& f) {
  using Policy = Kokkos::TeamPolicy<Exec>;
  auto policy = Policy(exec, static_cast<int>(rows), Kokkos::AUTO);
  constexpr auto kBytes = static_cast<int>(sizeof(Scratch) + alignof(Scratch));
  Kokkos::parallel_for(
      label, policy.set_scratch_size(0, Kokkos::PerTeam(kBytes)), KOKKOS_LAMBDA(const Policy::member_type& team) {
        void* memory = team.team_shmem().get_shmem_aligned(sizeof(Scratch), alignof(Scratch));
        f(team, static_cast<std::int64_t>(team.league_rank()), *static_cast<Scratch*>(memory));
      });
}

/// As for_rows: f(team, row, scratch) with a Scratch that the team's threads share, not initialised.
template <class Scratch, class F>
void for_rows_with(const Exec& exec, const char* label, std::int64_t rows, const F& f) {
  static_assert(std::is_trivially_destructible_v<Scratch>);
  if (rows <= 0) return;
  if constexpr (kHostExec) {
    Kokkos::parallel_for(label, Range(exec, 0, rows), [=](std::int64_t row) {
      Scratch scratch;
      f(HostTeam{}, row, scratch);
    });
  } else {
    team_rows_with<Scratch>(exec, label, rows, f);
  }
}

/// As for_rows where rows differ much in work.
template <class F>
void for_uneven_rows(const Exec& exec, const char* label, std::int64_t rows, const F& f) {
  if (rows <= 0) return;
  if constexpr (kHostExec) {
    using Dynamic = Kokkos::RangePolicy<Exec, Kokkos::Schedule<Kokkos::Dynamic>, Kokkos::IndexType<std::int64_t>>;
    Kokkos::parallel_for(label, Dynamic(exec, 0, rows), [=](std::int64_t row) { f(HostTeam{}, row); });
  } else {
    for_rows(exec, label, rows, f);
  }
}

/// f(i) for i in [0, n) of a row, by the whole team.
template <class F>
KOKKOS_INLINE_FUNCTION void row_for(const HostTeam&, std::int64_t n, const F f) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) f(i);
}
template <class Member, class F>
KOKKOS_INLINE_FUNCTION void row_for(const Member& team, std::int64_t n, const F& f) {
  Kokkos::parallel_for(Kokkos::TeamVectorRange(team, n), f);
}

/// Σ f(i) of a row, known to the whole team: fp32 over stretches, double from stretch to stretch.
template <class F>
KOKKOS_INLINE_FUNCTION float row_sum(const HostTeam&, std::int64_t n, const F f) {
  constexpr std::int64_t kStretch = 512;
  double total = 0;
  for (std::int64_t first = 0; first < n; first += kStretch) {
    const std::int64_t last = first + kStretch < n ? first + kStretch : n;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = first; i < last; ++i) sum += f(i);
    total += static_cast<double>(sum);
  }
  return static_cast<float>(total);
}
template <class Member, class F>
KOKKOS_INLINE_FUNCTION float row_sum(const Member& team, std::int64_t n, const F& f) {
  float sum = 0;
  Kokkos::parallel_reduce(
      Kokkos::TeamVectorRange(team, n), [&](std::int64_t i, float& part) { part += f(i); }, sum);
  return sum;
}

/// max f(i) of a row, −inf for none.
template <class F>
KOKKOS_INLINE_FUNCTION float row_max(const HostTeam&, std::int64_t n, const F f) {
  float largest = -std::numeric_limits<float>::infinity();
#pragma omp simd reduction(max : largest)
  for (std::int64_t i = 0; i < n; ++i) largest = f(i) > largest ? f(i) : largest;
  return largest;
}
template <class Member, class F>
KOKKOS_INLINE_FUNCTION float row_max(const Member& team, std::int64_t n, const F& f) {
  float largest = 0;
  Kokkos::parallel_reduce(
      Kokkos::TeamVectorRange(team, n), [&](std::int64_t i, float& part) { part = f(i) > part ? f(i) : part; },
      Kokkos::Max<float>(largest));
  return largest;
}

/// One action of the team's rather than of each of its threads.
template <class F>
KOKKOS_INLINE_FUNCTION void once(const HostTeam&, const F& f) {
  f();
}
template <class Member, class F>
KOKKOS_INLINE_FUNCTION void once(const Member& team, const F& f) {
  Kokkos::single(Kokkos::PerTeam(team), f);
}

/// What a read before the call must not see written after it.
KOKKOS_INLINE_FUNCTION void row_barrier(const HostTeam&) {}
template <class Member>
KOKKOS_INLINE_FUNCTION void row_barrier(const Member& team) {
  team.team_barrier();
}

}  // namespace shard8::kernels
