// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>
#include <type_traits>

/// Sums and maxima over the threads of a team, in an order that depends on the size of the team alone.
namespace shard8::kernels {

struct Add {
  KOKKOS_FORCEINLINE_FUNCTION float operator()(float a, float b) const { return a + b; }
  static constexpr float kNone = 0;
};
struct Larger {
  KOKKOS_FORCEINLINE_FUNCTION float operator()(float a, float b) const { return b > a ? b : a; }
  static constexpr float kNone = -__builtin_huge_valf();
};

#if defined(__CUDA_ARCH__)
/// op over the values of all 32 threads of a warp, returned to all of them.
template <class Op>
__device__ __forceinline__ float warp_total(float value, const Op& op) {
  for (int step = 16; step > 0; step /= 2) value = op(value, __shfl_xor_sync(0xffffffffu, value, step));
  return value;
}
#endif

/// Σ of the values of a warp's threads, returned to all of them. Only teams of a device may call the function.
KOKKOS_FORCEINLINE_FUNCTION float warp_sum(float value) {
#if defined(__CUDA_ARCH__)
  return warp_total(value, Add{});
#else
  return value;
#endif
}

/// The largest of the values of a warp's threads, returned to all of them. Only teams of a device may call the
/// function.
KOKKOS_FORCEINLINE_FUNCTION float warp_larger(float value) {
#if defined(__CUDA_ARCH__)
  return warp_total(value, Larger{});
#else
  return value;
#endif
}
KOKKOS_FORCEINLINE_FUNCTION std::uint64_t warp_larger(std::uint64_t value) {
#if defined(__CUDA_ARCH__)
  for (int step = 16; step > 0; step /= 2) {
    const auto other =
        static_cast<std::uint64_t>(__shfl_xor_sync(0xffffffffu, static_cast<unsigned long long>(value), step));
    value = other > value ? other : value;
  }
#endif
  return value;
}

/// A bit for each thread of a warp: whether `here` is true in that thread. All threads of the warp must call it. Only
/// teams of a device may call the function.
KOKKOS_FORCEINLINE_FUNCTION std::uint32_t warp_ballot(bool here) {
#if defined(__CUDA_ARCH__)
  return __ballot_sync(0xffffffffu, here ? 1 : 0);
#else
  return here ? 1 : 0;
#endif
}

/// op over the values of a team's threads, returned to all of them. A team of a device must consist of whole warps. The
/// call has a single barrier: behind it the threads read the values in place `slot` of shared memory. So a call may use
/// a slot again only after a call with another slot.
template <class Member, class Op>
KOKKOS_INLINE_FUNCTION float team_total(const Member& team, float value, [[maybe_unused]] const Op& op,
                                        [[maybe_unused]] int slot) {
#if defined(__CUDA_ARCH__)
  __shared__ float of_warp[4][32];
  value = warp_total(value, op);
  const int rank = team.team_rank(), lane = rank % 32;
  if (lane == 0) of_warp[slot][rank / 32] = value;
  team.team_barrier();
  return warp_total(lane < team.team_size() / 32 ? of_warp[slot][lane] : Op::kNone, op);
#else
  float total = value;
  if constexpr (std::is_same_v<Op, Add>) {
    team.team_reduce(Kokkos::Sum<float>(total));
  } else {
    team.team_reduce(Kokkos::Max<float>(total));
  }
  return total;
#endif
}

/// Σ of the values of a team's threads, returned to its first thread; other threads get no meaningful value. A team may
/// call the function only once in a kernel.
template <class Member>
KOKKOS_INLINE_FUNCTION double team_sum(const Member& team, double value) {
#if defined(__CUDA_ARCH__)
  __shared__ double of_warp[32];
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  const int rank = team.team_rank();
  if (rank % 32 == 0) of_warp[rank / 32] = value;
  team.team_barrier();
  double total = 0;
  if (rank == 0)
    for (int warp = 0; warp < team.team_size() / 32; ++warp) total += of_warp[warp];
  return total;
#else
  team.team_reduce(Kokkos::Sum<double>(value));
  return value;
#endif
}

/// As team_total above, for any number of calls: each call has a second barrier and needs no slots.
template <class Member, class Op>
KOKKOS_INLINE_FUNCTION float team_total(const Member& team, float value, const Op& op) {
  const float total = team_total(team, value, op, 0);
  team.team_barrier();
  return total;
}

/// Two sums at once; `slot` as in team_total.
struct TwoSums {
  float first, second;
};
template <class Member>
KOKKOS_INLINE_FUNCTION TwoSums team_sums(const Member& team, float first, float second, [[maybe_unused]] int slot) {
#if defined(__CUDA_ARCH__)
  __shared__ float of_warp[2][2][32];
  first = warp_total(first, Add{});
  second = warp_total(second, Add{});
  const int rank = team.team_rank(), lane = rank % 32;
  if (lane == 0) {
    of_warp[slot][0][rank / 32] = first;
    of_warp[slot][1][rank / 32] = second;
  }
  team.team_barrier();
  const bool is = lane < team.team_size() / 32;
  return {warp_total(is ? of_warp[slot][0][lane] : 0.0f, Add{}), warp_total(is ? of_warp[slot][1][lane] : 0.0f, Add{})};
#else
  TwoSums totals{first, second};
  team.team_reduce(Kokkos::Sum<float>(totals.first));
  team.team_reduce(Kokkos::Sum<float>(totals.second));
  return totals;
#endif
}

#if defined(__CUDA_ARCH__)
/// Two threads whose numbers differ by kHalf hold 2·kHalf values each. After an exchange each keeps one half of the
/// values: the larger of both threads' values. The recursion does the same to the halves of that half, and keeps the
/// values in registers.
template <int kHalf, int kCount>
__device__ __forceinline__ void larger_halves(int rank, std::int32_t (&value)[kCount]) {
  if constexpr (kHalf > 0) {
    const bool upper = (rank & kHalf) != 0;
#pragma unroll
    for (int k = 0; k < kHalf; ++k) {
      const std::int32_t keep = upper ? value[k + kHalf] : value[k], give = upper ? value[k] : value[k + kHalf];
      const std::int32_t other = __shfl_xor_sync(0xffffffffu, give, kHalf);
      value[k] = other > keep ? other : keep;
    }
    larger_halves<kHalf / 2>(rank, value);
  }
}
#endif

/// For each of kCount values (a power of two), the largest among kShare neighbouring threads of a warp. Thread t of the
/// neighbours gets the largest of value t % kCount. Only teams of a device may call the function.
template <int kShare, int kCount>
KOKKOS_FORCEINLINE_FUNCTION std::int32_t largest_of_share([[maybe_unused]] int rank, std::int32_t (&value)[kCount]) {
  static_assert(kShare <= 32 && kCount <= kShare && (kCount & (kCount - 1)) == 0);
#if defined(__CUDA_ARCH__)
  larger_halves<kCount / 2>(rank, value);
  std::int32_t largest = value[0];
#pragma unroll
  for (int step = kCount; step < kShare; step *= 2) {
    const std::int32_t other = __shfl_xor_sync(0xffffffffu, largest, step);
    largest = other > largest ? other : largest;
  }
  return largest;
#else
  return value[0];
#endif
}

/// The value of thread `which` among the kShare neighbouring threads of this thread. Only teams of a device may call
/// the function.
template <int kShare>
KOKKOS_FORCEINLINE_FUNCTION float of_neighbour(float value, [[maybe_unused]] int which) {
#if defined(__CUDA_ARCH__)
  return __shfl_sync(0xffffffffu, value, which, kShare);
#else
  return value;
#endif
}

/// The larger of two values: this thread's, and that of the thread of the same warp whose number differs by `step`, a
/// power of two. Only teams of a device may call the function.
KOKKOS_FORCEINLINE_FUNCTION std::int32_t larger_across(std::int32_t value, [[maybe_unused]] int step) {
#if defined(__CUDA_ARCH__)
  const std::int32_t other = __shfl_xor_sync(0xffffffffu, value, step);
  return other > value ? other : value;
#else
  return value;
#endif
}

/// The pair of bf16 of another thread of the warp, whose number differs by `step`, a power of two. Only teams of a
/// device may call the function.
KOKKOS_FORCEINLINE_FUNCTION std::uint32_t pair_across(std::uint32_t pair, [[maybe_unused]] int step) {
#if defined(__CUDA_ARCH__)
  return __shfl_xor_sync(0xffffffffu, pair, step);
#else
  return pair;
#endif
}

/// A barrier of the threads of a warp: what a thread loads behind it is not loaded before it. Hosts have no warps and
/// wait for nobody.
KOKKOS_FORCEINLINE_FUNCTION void warp_barrier() {
#if defined(__CUDA_ARCH__)
  __syncwarp();
#endif
}

/// A barrier of the team. Returns to all threads whether `here` is true in any of them.
template <class Member>
KOKKOS_FORCEINLINE_FUNCTION bool any_of_team([[maybe_unused]] const Member& team, bool here) {
#if defined(__CUDA_ARCH__)
  return __syncthreads_or(here ? 1 : 0) != 0;
#else
  std::int32_t any = here ? 1 : 0;
  team.team_reduce(Kokkos::Max<std::int32_t>(any));
  return any != 0;
#endif
}

/// The largest of the integers of a team's threads, returned to all of them.
template <class Member>
KOKKOS_INLINE_FUNCTION std::int32_t team_largest(const Member& team, std::int32_t value) {
#if defined(__CUDA_ARCH__)
  __shared__ std::int32_t of_warp[32];
  value = __reduce_max_sync(0xffffffffu, value);
  const int rank = team.team_rank(), lane = rank % 32;
  if (lane == 0) of_warp[rank / 32] = value;
  team.team_barrier();
  value = __reduce_max_sync(0xffffffffu, lane < team.team_size() / 32 ? of_warp[lane] : 0);
  team.team_barrier();
  return value;
#else
  std::int32_t largest = value;
  team.team_reduce(Kokkos::Max<std::int32_t>(largest));
  return largest;
#endif
}

}  // namespace shard8::kernels
