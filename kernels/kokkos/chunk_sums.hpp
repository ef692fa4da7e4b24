// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/kokkos/loops.hpp"

namespace shard8::kernels {

/// The parts of a sum over a whole tensor, one for each of a fixed number of stretches of it. Each
/// part is written by one thread and joined with zeros, so the total does not depend on the threads.
struct ChunkSums {
  static constexpr std::int64_t kChunks = 256;
  double part[kChunks] = {};

  KOKKOS_INLINE_FUNCTION ChunkSums& operator+=(const ChunkSums& other) {
    for (std::int64_t c = 0; c < kChunks; ++c) part[c] += other.part[c];
    return *this;
  }
  double total() const {
    double sum = 0;
    for (const double p : part) sum += p;
    return sum;
  }
};

/// Σ over c of f(first, last), the sum of stretch c of n elements, in double. Waits for the result.
template <class F>
double chunked_sum(const Exec& exec, const char* label, std::int64_t n, const F& f) {
  if (n <= 0) return 0;
  const std::int64_t length = (n + ChunkSums::kChunks - 1) / ChunkSums::kChunks;
  ChunkSums sums;
  Kokkos::parallel_reduce(
      label, Range(exec, 0, ChunkSums::kChunks),
      KOKKOS_LAMBDA(std::int64_t c, ChunkSums & parts) {
        const std::int64_t first = c * length, end = first + length, last = end < n ? end : n;
        if (first < last) parts.part[c] += f(first, last);
      },
      sums);
  return sums.total();
}

}  // namespace shard8::kernels
