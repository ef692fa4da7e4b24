// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/error.hpp"
#include "kernels/kokkos/loops.hpp"
#include "tensor/tensor.hpp"

namespace shard8::kernels {

/// Partial sums over a whole tensor, one for each of a fixed number of stretches. One thread writes each part, so the
/// total does not depend on the number of threads.
struct ChunkSums {
  static constexpr std::int64_t kChunks = 256;
  double part[kChunks] = {};
  double total() const {
    double sum = 0;
    for (const double p : part) sum += p;
    return sum;
  }
};

/// The double that kernels add a sum to. Throws Error(failed) unless `total` has 8 bytes of u8.
inline double* require_total(const char* kernel, const tensor::Tensor& total) {
  SHARD8_REQUIRE(total.bytes() == sizeof(double), "{}: total of {} bytes; 8, a double, are needed", kernel,
                 total.bytes());
  return reinterpret_cast<double*>(total.as<std::uint8_t>());
}

/// A sum on a device: threads take packs of the elements [0, n) in turn.
template <int N, class F>
struct DeviceSum {
  using value_type = double;
  static constexpr int kPacks = 4;
  F f;
  std::int64_t n, stride;
  bool fits;
  double* total;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i, double& sum) const {
    if (fits) {
      i *= N;
      if (i + (kPacks - 1) * stride + N <= n) {
        sum += f(Packed<N, kPacks>{stride}, i);
      } else {
        for (int u = 0; u < kPacks; ++u, i += stride) {
          if (i + N <= n) {
            sum += f(Packed<N, 1>{stride}, i);
          } else {
            for (std::int64_t one = i; one < n; ++one) sum += f(Single{}, one);
          }
        }
      }
    } else {
      for (; i < n; i += stride) sum += f(Single{}, i);
    }
  }
  KOKKOS_INLINE_FUNCTION void init(double& sum) const { sum = 0; }
  KOKKOS_INLINE_FUNCTION void join(double& sum, const double& other) const { sum += other; }
  /// Adds to the total here. If parallel_reduce returned a result, Kokkos would allocate a name for a fence at every
  /// call.
  KOKKOS_INLINE_FUNCTION void final(double& sum) const { *total += sum; }
};

/// total += Σ f(w, i) for i in [0, n), in double, in an order that does not depend on the number of threads. On a
/// device f(w, i) returns the sum over the elements of width w at i. On hosts host_chunk(first, last) returns the sum
/// over a stretch; f is not used.
template <int N, class F, class HostChunk>
void add_sum(const Exec& exec, const char* label, double* total, std::int64_t n, [[maybe_unused]] bool fits,
             [[maybe_unused]] const F& f, [[maybe_unused]] const HostChunk& host_chunk) {
  if (n <= 0) return;
  if constexpr (kHostExec) {
    const std::int64_t length = (n + ChunkSums::kChunks - 1) / ChunkSums::kChunks;
    ChunkSums sums;
    double* const part = sums.part;
    Kokkos::parallel_for(label_of(label), Range(exec, 0, ChunkSums::kChunks), [=](std::int64_t c) {
      const std::int64_t first = c * length, end = first + length, last = end < n ? end : n;
      if (first < last) part[c] = host_chunk(first, last);
    });
    exec.fence(label_of(label));
    *total += sums.total();
  } else {
    using Sum = DeviceSum<N, F>;
    const std::int64_t lanes = fits ? N : 1, per_thread = lanes * Sum::kPacks;
    const std::int64_t threads = (n + per_thread - 1) / per_thread;
    Kokkos::parallel_reduce(label_of(label), Range(exec, 0, threads), Sum{f, n, threads * lanes, fits, total});
  }
}

}  // namespace shard8::kernels
