// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/kokkos/loops.hpp"

namespace shard8::kernels {

/// A tile of a matrix (R, C) of bytes.
struct ByteTile {
  static constexpr std::int64_t kRows = 64, kCols = 128;
  std::int64_t row0, col0, rows, cols;

  static std::int64_t count(std::int64_t rows, std::int64_t cols) {
    return ((rows + kRows - 1) / kRows) * ((cols + kCols - 1) / kCols);
  }
  KOKKOS_INLINE_FUNCTION static ByteTile of(std::int64_t tile, std::int64_t rows, std::int64_t cols) {
    const std::int64_t across = (cols + kCols - 1) / kCols;
    const std::int64_t row0 = tile / across * kRows, col0 = tile % across * kCols;
    return {row0, col0, rows - row0 < kRows ? rows - row0 : kRows, cols - col0 < kCols ? cols - col0 : kCols};
  }
};

/// Exchanges what `mask` selects of b with the same of a shifted down.
inline void exchange(std::uint64_t& a, std::uint64_t& b, int shift, std::uint64_t mask) {
  const std::uint64_t t = ((a >> shift) ^ b) & mask;
  b ^= t;
  a ^= t << shift;
}

/// out (8, 8) = inᵀ for rows of bytes `out_stride` and `in_stride` apart: halves of the words of
/// rows four apart change places, then quarters of rows two apart, then bytes of neighbours.
inline void transpose_8x8(std::uint8_t* out, std::int64_t out_stride, const std::uint8_t* in, std::int64_t in_stride) {
  std::uint64_t row[8];
  for (int r = 0; r < 8; ++r) std::memcpy(&row[r], in + r * in_stride, 8);
  for (int r = 0; r < 4; ++r) exchange(row[r], row[r + 4], 32, 0x00000000ffffffffu);
  for (const int r : {0, 1, 4, 5}) exchange(row[r], row[r + 2], 16, 0x0000ffff0000ffffu);
  for (int r = 0; r < 8; r += 2) exchange(row[r], row[r + 1], 8, 0x00ff00ff00ff00ffu);
  for (int r = 0; r < 8; ++r) std::memcpy(out + r * out_stride, &row[r], 8);
}

/// out (C, R) = in (R, C)ᵀ for one tile of it.
inline void transpose_tile(const HostTeam&, std::uint8_t* out, const std::uint8_t* in, std::int64_t rows,
                           std::int64_t cols, const ByteTile& tile) {
  const std::int64_t whole_rows = tile.rows / 8 * 8, whole_cols = tile.cols / 8 * 8;
  const std::uint8_t* const from = in + tile.row0 * cols + tile.col0;
  std::uint8_t* const to = out + tile.col0 * rows + tile.row0;
  for (std::int64_t c = 0; c < whole_cols; c += 8) {
    for (std::int64_t r = 0; r < whole_rows; r += 8) transpose_8x8(to + c * rows + r, rows, from + r * cols + c, cols);
  }
  for (std::int64_t c = 0; c < tile.cols; ++c) {
    for (std::int64_t r = c < whole_cols ? whole_rows : 0; r < tile.rows; ++r) to[c * rows + r] = from[r * cols + c];
  }
}
template <class Member>
KOKKOS_INLINE_FUNCTION void transpose_tile(const Member& team, std::uint8_t* out, const std::uint8_t* in,
                                           std::int64_t rows, std::int64_t cols, const ByteTile& tile) {
  row_for(team, tile.rows * tile.cols, [=](std::int64_t i) {
    const std::int64_t r = tile.row0 + i % tile.rows, c = tile.col0 + i / tile.rows;
    out[c * rows + r] = in[r * cols + c];
  });
}

}  // namespace shard8::kernels
