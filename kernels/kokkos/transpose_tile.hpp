// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/kokkos/loops.hpp"
#include "tensor/tensor.hpp"

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

/// Exchanges the bits of b that `mask` selects with the same bits of a >> shift.
inline void exchange(std::uint64_t& a, std::uint64_t& b, int shift, std::uint64_t mask) {
  const std::uint64_t t = ((a >> shift) ^ b) & mask;
  b ^= t;
  a ^= t << shift;
}

/// out (8, 8) = inᵀ for rows of bytes `out_stride` and `in_stride` apart: halves of the words of
/// rows four apart are exchanged, then quarters of rows two apart, then bytes of neighbouring rows.
inline void transpose_8x8(std::uint8_t* out, std::int64_t out_stride, const std::uint8_t* in, std::int64_t in_stride) {
  std::uint64_t row[8];
  for (int r = 0; r < 8; ++r) std::memcpy(&row[r], in + r * in_stride, 8);
  for (int r = 0; r < 4; ++r) exchange(row[r], row[r + 4], 32, 0x00000000ffffffffu);
  for (const int r : {0, 1, 4, 5}) exchange(row[r], row[r + 2], 16, 0x0000ffff0000ffffu);
  for (int r = 0; r < 8; r += 2) exchange(row[r], row[r + 1], 8, 0x00ff00ff00ff00ffu);
  for (int r = 0; r < 8; ++r) std::memcpy(out + r * out_stride, &row[r], 8);
}

/// out (C, R) = in (R, C)ᵀ, for one tile of `in`.
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

/// Squares of 16 by 16 bytes, which a thread of a device transposes in registers. 32 threads have 8 by 4 squares.
struct ByteSquare {
  static constexpr std::int64_t kSide = 16, kHigh = 8, kWide = 4, kPerTeam = 8 * kHigh * kWide;
  std::int64_t row0, col0;

  /// How many teams a matrix needs.
  static std::int64_t teams(std::int64_t rows, std::int64_t cols) {
    return (tiles(rows, cols) * kHigh * kWide + kPerTeam - 1) / kPerTeam;
  }
  /// Calls f(square) for this thread's squares of team `index` that begin inside the matrix.
  template <class AnyMember, class F>
  KOKKOS_INLINE_FUNCTION static void for_each(const AnyMember& team, std::int64_t index, std::int64_t rows,
                                              std::int64_t cols, const F& f) {
    const auto size = static_cast<std::int64_t>(team.team_size());
    const std::int64_t across = (cols + kSide * kWide - 1) / (kSide * kWide);
    for (std::int64_t s = team.team_rank(); s < kPerTeam; s += size) {
      const std::int64_t tile = (index * kPerTeam + s) / (kHigh * kWide), in_tile = s % (kHigh * kWide);
      const std::int64_t down = tile / across;
      const ByteSquare square{(down * kHigh + in_tile / kWide) * kSide,
                              ((tile - down * across) * kWide + in_tile % kWide) * kSide};
      if (square.row0 < rows && square.col0 < cols) f(square);
    }
  }

 private:
  static std::int64_t tiles(std::int64_t rows, std::int64_t cols) {
    return (rows + kSide * kHigh - 1) / (kSide * kHigh) * ((cols + kSide * kWide - 1) / (kSide * kWide));
  }
};

/// to (16, 16) = rowᵀ, rows of `to` `stride` bytes apart.
KOKKOS_FORCEINLINE_FUNCTION void store_transposed(std::uint8_t* to, std::int64_t stride, const Words<16> (&row)[16]) {
  SHARD8_UNROLL
  for (int c = 0; c < 4; ++c) {
    Words<16> column[4];
    SHARD8_UNROLL
    for (int r = 0; r < 4; ++r) {
      std::uint32_t square[4] = {row[4 * r].word[c], row[4 * r + 1].word[c], row[4 * r + 2].word[c],
                                 row[4 * r + 3].word[c]};
      tensor::transpose_4x4(square);
      SHARD8_UNROLL
      for (int k = 0; k < 4; ++k) column[k].word[r] = square[k];
    }
    SHARD8_UNROLL
    for (int k = 0; k < 4; ++k) store_words(to + (4 * c + k) * stride, column[k]);
  }
}

/// out (C, R) = in (R, C)ᵀ for one square. `whole`: all squares are whole and aligned to 16 bytes (squares_fit).
KOKKOS_INLINE_FUNCTION void transpose_square(std::uint8_t* out, const std::uint8_t* in, std::int64_t rows,
                                             std::int64_t cols, const ByteSquare& square, bool whole) {
  if (whole) {
    Words<16> row[16];
    SHARD8_UNROLL
    for (int r = 0; r < 16; ++r) row[r] = load_words<16>(in + (square.row0 + r) * cols + square.col0);
    store_transposed(out + square.col0 * rows + square.row0, rows, row);
    return;
  }
  for (std::int64_t c = square.col0; c < square.col0 + 16 && c < cols; ++c) {
    for (std::int64_t r = square.row0; r < square.row0 + 16 && r < rows; ++r) out[c * rows + r] = in[r * cols + c];
  }
}

/// Whether all squares of a matrix and of its transpose are whole and aligned to 16 bytes.
template <class... T>
bool squares_fit(std::int64_t rows, std::int64_t cols, const T*... data) {
  return rows % 16 == 0 && packs_fit<16>(cols, data...);
}

/// A team's part of out (C, R) = in (R, C)ᵀ.
struct TransposeTiles {
  std::uint8_t* out;
  const std::uint8_t* in;
  std::int64_t rows, cols;
  bool whole;

  static std::int64_t teams(std::int64_t rows, std::int64_t cols) {
    return kHostExec ? ByteTile::count(rows, cols) : ByteSquare::teams(rows, cols);
  }
  void operator()(const HostTeam& team, std::int64_t tile) const {
    transpose_tile(team, out, in, rows, cols, ByteTile::of(tile, rows, cols));
  }
  template <class AnyMember>
  KOKKOS_INLINE_FUNCTION void operator()(const AnyMember& team, std::int64_t index) const {
    ByteSquare::for_each(team, index, rows, cols,
                         [=, *this](const ByteSquare& s) { transpose_square(out, in, rows, cols, s, whole); });
  }
};

/// out (C, R) = in (R, C)ᵀ of bytes.
inline void transpose_tiles(const Exec& exec, const char* label, const tensor::Tensor& out, const tensor::Tensor& in) {
  const auto rows = in.rows(), cols = in.cols();
  auto* to = reinterpret_cast<std::uint8_t*>(out.data);
  const auto* from = reinterpret_cast<const std::uint8_t*>(in.data);
  for_rows(exec, label, TransposeTiles::teams(rows, cols),
           TransposeTiles{to, from, rows, cols, squares_fit(rows, cols, to, from)});
}

}  // namespace shard8::kernels
