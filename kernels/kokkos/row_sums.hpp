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

/// Rows cut into chunks. One team sums a chunk into one row of partial sums. The chunks depend on the number of rows
/// alone, so the sums do not depend on the number of threads.
struct RowChunks {
  std::int64_t rows = 0, chunk_rows = 1;

  static RowChunks of(std::int64_t rows) {
    constexpr std::int64_t kMaxChunks = 256, kMinRows = 16;
    const auto even = (rows + kMaxChunks - 1) / kMaxChunks;
    return {rows, even < kMinRows ? kMinRows : even};
  }
  KOKKOS_INLINE_FUNCTION std::int64_t count() const { return (rows + chunk_rows - 1) / chunk_rows; }
  KOKKOS_INLINE_FUNCTION std::int64_t first(std::int64_t chunk) const { return chunk * chunk_rows; }
  KOKKOS_INLINE_FUNCTION std::int64_t last(std::int64_t chunk) const {
    const auto end = (chunk + 1) * chunk_rows;
    return end < rows ? end : rows;
  }
};

/// One block of columns in add_partial_sums. On a device each group of threads takes every kGroups-th chunk.
struct AddPartialSums {
  static constexpr std::int64_t kColumns = kHostExec ? 64 : 32, kGroups = 32;
  static constexpr int kThreads = 1024;
  struct Scratch {
    float group[kGroups][kColumns];
  };

  float *sums, *more, *partial;
  std::int64_t chunks, hidden;

  void operator()(const HostTeam& team, std::int64_t index, Scratch&) const {
    const std::int64_t blocks = blocks_across(), which = index / blocks, first = (index - which * blocks) * kColumns;
    const std::int64_t columns = first + kColumns < hidden ? kColumns : hidden - first;
    float* total = partial + which * chunks * hidden + first;
    for (std::int64_t c = 1; c < chunks; ++c) {
      const float* part = total + c * hidden;
      row_for(team, columns, [=](std::int64_t i) { total[i] += part[i]; });
    }
    float* out = (which == 0 ? sums : more) + first;
    row_for(team, columns, [=](std::int64_t i) { out[i] += total[i]; });
  }
  template <class AnyMember>
  KOKKOS_INLINE_FUNCTION void operator()(const AnyMember& team, std::int64_t index, Scratch& scratch) const {
    const std::int64_t blocks = blocks_across(), which = index / blocks, first = (index - which * blocks) * kColumns;
    const std::int64_t columns = first + kColumns < hidden ? kColumns : hidden - first;
    const float* const from = partial + which * chunks * hidden + first;
    float* const out = (which == 0 ? sums : more) + first;
    row_for(team, kGroups * kColumns, [&](std::int64_t i) {
      const std::int64_t group = i / kColumns, column = i % kColumns;
      if (column >= columns) return;
      float total = 0;
      constexpr int kAtOnce = 8;
      for (std::int64_t c = group; c < chunks; c += kAtOnce * kGroups) {
        float part[kAtOnce];
        SHARD8_UNROLL
        for (int u = 0; u < kAtOnce; ++u) {
          const std::int64_t chunk = c + u * kGroups;
          part[u] = chunk < chunks ? from[chunk * hidden + column] : 0.0f;
        }
        SHARD8_UNROLL
        for (int u = 0; u < kAtOnce; ++u) total += part[u];
      }
      scratch.group[group][column] = total;
    });
    row_barrier(team);
    row_for(team, columns, [&](std::int64_t column) {
      float total = 0;
      SHARD8_UNROLL
      for (int g = 0; g < kGroups; ++g) total += g < chunks ? scratch.group[g][column] : 0.0f;
      out[column] += total;
    });
  }
  KOKKOS_INLINE_FUNCTION std::int64_t blocks_across() const { return (hidden + kColumns - 1) / kColumns; }
};

/// sums (H) += Σ_chunk partial (chunks, H), in a fixed order; partial may be overwritten. `more`, unless null, is a
/// second vector of sums, whose partial sums follow those of the first.
inline void add_partial_sums(const Exec& exec, const char* label, float* sums, float* partial, std::int64_t chunks,
                             std::int64_t hidden, float* more = nullptr) {
  if (chunks == 0) return;
  using Bounds = Kokkos::LaunchBounds<AddPartialSums::kThreads, 1>;
  const AddPartialSums of{sums, more, partial, chunks, hidden};
  for_rows_with<AddPartialSums::Scratch, Bounds>(exec, label, of.blocks_across() * (more == nullptr ? 1 : 2), of,
                                                 AddPartialSums::kThreads);
}

}  // namespace shard8::kernels
