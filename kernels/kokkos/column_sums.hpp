// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/kokkos/loops.hpp"

namespace shard8::kernels {

/// Rows cut into chunks, each of which is summed over by one team into a row of partial sums. The
/// cut depends on the number of rows alone, so the sums do not depend on the threads.
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

/// sums (H) += Σ_chunk partial (chunks, H), in order; partial's first row is used up.
inline void add_partial_sums(const Exec& exec, const char* label, float* sums, float* partial, std::int64_t chunks,
                             std::int64_t hidden) {
  if (chunks == 0) return;
  constexpr std::int64_t kColumns = 64;
  for_rows(
      exec, label, (hidden + kColumns - 1) / kColumns, KOKKOS_LAMBDA(const Team& team, std::int64_t block) {
        const std::int64_t first = block * kColumns;
        const std::int64_t columns = first + kColumns < hidden ? kColumns : hidden - first;
        float* total = partial + first;
        for (std::int64_t c = 1; c < chunks; ++c) {
          const float* part = partial + c * hidden + first;
          row_for(team, columns, [=](std::int64_t i) { total[i] += part[i]; });
        }
        float* out = sums + first;
        row_for(team, columns, [=](std::int64_t i) { out[i] += total[i]; });
      });
}

}  // namespace shard8::kernels
