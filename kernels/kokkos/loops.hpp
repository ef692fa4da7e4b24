// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/kokkos/label.hpp"
#include "kernels/kokkos/lanes.hpp"
#include "kernels/kokkos/team_sums.hpp"
#include "tensor/runtime.hpp"

/// The loops of the portable kernels. A GPU spreads a row over the threads of a team. A host thread takes whole rows,
/// each in vector code. An `omp simd` pragma lets the compiler reorder the one sum that it names; the order depends on
/// the build alone, never on the number of threads.
namespace shard8::kernels {

using tensor::Exec;

/// Begins a lambda that is the body of a loop. In a build for a device the lambda is for the device alone.
/// KOKKOS_LAMBDA makes a lambda for hosts and devices, which keeps its captures on the host's heap and allocates them
/// at each launch.
#if defined(SHARD8_CUDA)
#define SHARD8_LAMBDA [=] __device__
#else
#define SHARD8_LAMBDA [=]
#endif

inline constexpr bool kHostExec = Kokkos::SpaceAccessibility<Kokkos::HostSpace, Exec::memory_space>::accessible;
using Range = Kokkos::RangePolicy<Exec, Kokkos::IndexType<std::int64_t>>;
using TeamPolicy = Kokkos::TeamPolicy<Exec>;
using Member = TeamPolicy::member_type;

/// A host thread as a team of one, which has a row to itself.
struct HostTeam {};
using Team = std::conditional_t<kHostExec, HostTeam, Member>;

/// Threads of a team on a device by default. Teams are always whole warps.
inline constexpr int kTeamThreads = 256;

/// No bounds: the compiler chooses how many registers a thread has. Kokkos::LaunchBounds<t, n> limits the registers, so
/// that n teams of t threads fit on a multiprocessor at once.
using NoBounds = Kokkos::LaunchBounds<>;

/// The policy for `teams` teams. The hint makes Kokkos pass the functor as a kernel argument. Without the hint a
/// functor above 512 bytes is copied to one fixed place on the device, and the host waits until the last kernel that
/// used the place has ended.
template <class Bounds>
auto team_policy(const Exec& exec, std::int64_t teams, int threads) {
  using Policy = Kokkos::TeamPolicy<Exec, Bounds, Kokkos::Experimental::WorkItemProperty::HintLightWeight_t>;
  if constexpr (kHostExec) return Policy(exec, static_cast<int>(teams), Kokkos::AUTO);
  return Policy(exec, static_cast<int>(teams), threads);
}

/// Calls f(i) for i in [0, n), in any order and at once. Iteration i may not write memory that another iteration reads
/// or writes.
template <class F>
void for_each(const Exec& exec, const char* label, std::int64_t n, const F& f) {
  if (n <= 0) return;
  if constexpr (kHostExec) {
    constexpr std::int64_t kBlock = 2048;
    Kokkos::parallel_for(label_of(label), Range(exec, 0, (n + kBlock - 1) / kBlock), [=](std::int64_t block) {
      const F g = f;
      const std::int64_t first = block * kBlock, last = std::min(first + kBlock, n);
#pragma omp simd
      for (std::int64_t i = first; i < last; ++i) g(i);
    });
  } else {
    Kokkos::parallel_for(label_of(label), Range(exec, 0, n), f);
  }
}

/// Calls f(team, row) for a team's row.
template <class F>
struct TeamRow {
  F f;
  KOKKOS_INLINE_FUNCTION void operator()(const Member& team) const {
    f(team, static_cast<std::int64_t>(team.league_rank()));
  }
};

/// Calls f(team, row) for row in [0, rows), by Kokkos teams, on hosts too.
template <class Bounds = NoBounds, class F>
void team_rows(const Exec& exec, const char* label, std::int64_t rows, const F& f, int threads = kTeamThreads) {
  Kokkos::parallel_for(label_of(label), team_policy<Bounds>(exec, rows, threads), TeamRow<F>{f});
}

/// Calls f(team, row) for row in [0, rows).
template <class Bounds = NoBounds, class F>
void for_rows(const Exec& exec, const char* label, std::int64_t rows, const F& f, int threads = kTeamThreads) {
  if (rows <= 0) return;
  if constexpr (kHostExec) {
    Kokkos::parallel_for(label_of(label), Range(exec, 0, rows), [=](std::int64_t row) { f(HostTeam{}, row); });
  } else {
    team_rows<Bounds>(exec, label, rows, f, threads);
  }
}

/// Calls f(team, row, scratch) for a team's row, with the team's Scratch.
template <class Scratch, class F>
struct TeamRowWith {
  F f;
  KOKKOS_INLINE_FUNCTION void operator()(const Member& team) const {
#if defined(__CUDA_ARCH__)
    // The compiler knows the address of this array. For Kokkos' scratch the compiler would compute the address at each
    // use, in 20 instructions.
    __shared__ alignas(Scratch) unsigned char memory[sizeof(Scratch)];
#else
    void* memory = team.team_shmem().get_shmem_aligned(sizeof(Scratch), alignof(Scratch));
#endif
    f(team, static_cast<std::int64_t>(team.league_rank()), *reinterpret_cast<Scratch*>(memory));
  }
};

/// As team_rows: calls f(team, row, scratch), where each team has a Scratch in its fast memory.
template <class Scratch, class Bounds = NoBounds, class F>
void team_rows_with(const Exec& exec, const char* label, std::int64_t rows, const F& f, int threads = kTeamThreads) {
  auto policy = team_policy<Bounds>(exec, rows, threads);
  if constexpr (!tensor::kDevice) {  // on a device TeamRowWith has an array of its own
    constexpr auto kBytes = static_cast<int>(sizeof(Scratch) + alignof(Scratch));
    policy.set_scratch_size(0, Kokkos::PerTeam(kBytes));
  }
  Kokkos::parallel_for(label_of(label), policy, TeamRowWith<Scratch, F>{f});
}

/// As for_rows: calls f(team, row, scratch). The team's threads share the Scratch, which is not initialised.
template <class Scratch, class Bounds = NoBounds, class F>
void for_rows_with(const Exec& exec, const char* label, std::int64_t rows, const F& f, int threads = kTeamThreads) {
  static_assert(std::is_trivially_destructible_v<Scratch>);
  if (rows <= 0) return;
  if constexpr (kHostExec) {
    Kokkos::parallel_for(label_of(label), Range(exec, 0, rows), [=](std::int64_t row) {
      Scratch scratch;
      f(HostTeam{}, row, scratch);
    });
  } else {
    team_rows_with<Scratch, Bounds>(exec, label, rows, f, threads);
  }
}

/// Calls f(team, first, n) for a team's span of [0, count).
template <class F>
struct TeamSpan {
  F f;
  std::int64_t length, count;
  template <class AnyTeam>
  KOKKOS_INLINE_FUNCTION void operator()(const AnyTeam& team, std::int64_t span) const {
    const std::int64_t first = span * length, rest = count - first;
    f(team, first, rest < length ? rest : length);
  }
};

/// Calls f(team, first, n) for spans that cover [0, count) of a flat tensor.
template <class F>
void for_spans(const Exec& exec, const char* label, std::int64_t count, const F& f) {
  constexpr std::int64_t kLength = kHostExec ? 2048 : 8192;
  for_rows(exec, label, (count + kLength - 1) / kLength, TeamSpan<F>{f, kLength, count});
}
/// As for_spans, with longer spans: kOnDevice elements on a device. An empty tensor has one span, of no elements.
template <class Bounds = NoBounds, std::int64_t kOnDevice = 8192, class F>
void for_stretches(const Exec& exec, const char* label, std::int64_t count, const F& f) {
  constexpr std::int64_t kLength = kHostExec ? 8192 : kOnDevice;
  for_rows<Bounds>(exec, label, count > kLength ? (count + kLength - 1) / kLength : 1, TeamSpan<F>{f, kLength, count});
}

/// As for_rows, on hosts only, for rows whose work differs much.
template <class F>
void for_uneven_rows(const Exec& exec, const char* label, std::int64_t rows, const F& f) {
  using Dynamic = Kokkos::RangePolicy<Exec, Kokkos::Schedule<Kokkos::Dynamic>, Kokkos::IndexType<std::int64_t>>;
  if (rows <= 0) return;
  Kokkos::parallel_for(label_of(label), Dynamic(exec, 0, rows), [=](std::int64_t row) { f(HostTeam{}, row); });
}

/// Calls f(i) for i in [0, n) of a row, by the whole team.
template <class F>
KOKKOS_INLINE_FUNCTION void row_for(const HostTeam&, std::int64_t n, const F f) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) f(i);
}
template <class AnyMember, class F>
KOKKOS_INLINE_FUNCTION void row_for(const AnyMember& team, std::int64_t n, const F& f) {
  const auto size = static_cast<std::int64_t>(team.team_size());
  for (std::int64_t i = team.team_rank(); i < n; i += size) f(i);
}

/// Calls f(w, i) for the elements [0, n) of a row, by the whole team. On a device, where `fits` (packs_fit), in packs
/// of N elements, kPacks packs at once while there are enough.
template <int N, int kPacks = 2, class F>
KOKKOS_INLINE_FUNCTION void row_packs(const HostTeam&, std::int64_t n, bool, const F f) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) f(Single{}, i);
}
template <int N, int kPacks = 2, class AnyMember, class F>
KOKKOS_INLINE_FUNCTION void row_packs(const AnyMember& team, std::int64_t n, bool fits, const F& f) {
  const auto rank = static_cast<std::int64_t>(team.team_rank()), size = static_cast<std::int64_t>(team.team_size());
  const std::int64_t stride = size * N;
  std::int64_t done = 0;
  if (fits) {
    std::int64_t i = rank * N;
    if constexpr (kPacks > 1) {
      for (; i + (kPacks - 1) * stride + N <= n; i += kPacks * stride) f(Packed<N, kPacks>{stride}, i);
    }
    for (; i + N <= n; i += stride) f(Packed<N, 1>{stride}, i);
    done = n / N * N;
  }
  for (std::int64_t i = done + rank; i < n; i += size) f(Single{}, i);
}

/// Σ f(w, i) of a row, returned to the whole team. Hosts add in fp32 within a stretch and in double from stretch to
/// stretch.
template <int N, int kPacks = 2, class F>
KOKKOS_INLINE_FUNCTION float row_sum(const HostTeam&, std::int64_t n, bool, const F f) {
  constexpr std::int64_t kStretch = 512;
  double total = 0;
  for (std::int64_t first = 0; first < n; first += kStretch) {
    const std::int64_t last = first + kStretch < n ? first + kStretch : n;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = first; i < last; ++i) sum += f(Single{}, i);
    total += static_cast<double>(sum);
  }
  return static_cast<float>(total);
}
template <int N, int kPacks = 2, class AnyMember, class F>
KOKKOS_INLINE_FUNCTION float row_sum(const AnyMember& team, std::int64_t n, bool fits, const F& f) {
  float sum = 0;
  row_packs<N, kPacks>(team, n, fits, [&](auto w, std::int64_t i) { sum += f(w, i); });
  return team_total(team, sum, Add{});
}

/// max x[i] of a row; −inf for an empty row.
template <int N, int kPacks = 4>
KOKKOS_INLINE_FUNCTION float row_max(const HostTeam&, std::int64_t n, bool, const float* x) {
  float largest = -std::numeric_limits<float>::infinity();
#pragma omp simd reduction(max : largest)
  for (std::int64_t i = 0; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
  return largest;
}
template <int N, int kPacks = 4, class AnyMember>
KOKKOS_INLINE_FUNCTION float row_max(const AnyMember& team, std::int64_t n, bool fits, const float* x) {
  float largest = Larger::kNone;
  row_packs<N, kPacks>(team, n, fits, [&](auto w, std::int64_t i) {
    const auto values = w.load(x, i);
    for (int j = 0; j < decltype(w)::kCount; ++j) largest = Larger{}(largest, values[j]);
  });
  return team_total(team, largest, Larger{});
}

/// Calls f once for the team, rather than once for each of its threads.
template <class F>
KOKKOS_INLINE_FUNCTION void once(const HostTeam&, const F& f) {
  f();
}
template <class AnyMember, class F>
KOKKOS_INLINE_FUNCTION void once(const AnyMember& team, const F& f) {
  if (team.team_rank() == 0) f();
}

/// A barrier of the team: reads before the barrier do not see writes after it.
KOKKOS_INLINE_FUNCTION void row_barrier(const HostTeam&) {}
template <class AnyMember>
KOKKOS_INLINE_FUNCTION void row_barrier(const AnyMember& team) {
  team.team_barrier();
}

}  // namespace shard8::kernels
