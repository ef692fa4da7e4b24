// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "kernels/kokkos/emit.hpp"
#include "kernels/kokkos/transpose_tile.hpp"

/// What is made on a device, cast and wanted transposed too, in one pass over tiles. A maker says what is made:
/// at row r, maker.row(r) is that row's; its load(w, i) is what it reads for the elements i of a width, and
/// make(w, that) the Parts that come of them, Values to be rounded or lanes as they are.
namespace shard8::kernels {

/// A row of R elements makes one of kParts·R: part p of element i is element p·R + i.
template <int kParts, class V>
struct Parts {
  V part[kParts];
};

/// Codes on their way from rows to columns, as words of four rows of a column. Every pack of columns has its
/// fours of words in another order, so that neighbouring threads write to different banks.
struct CodeTile {
  static constexpr int kSide = 128, kWords = kSide / 4, kChunks = kSide / 16;
  alignas(16) std::uint32_t word[kSide][kWords];

  /// The codes of N columns in rows 4·four to 4·four + 3.
  template <int N>
  KOKKOS_FORCEINLINE_FUNCTION void put(int four, int column, const Words<N> (&row)[4]) {
    const int place = 4 * (four / 4 ^ turn<N>(column)) + four % 4;
    SHARD8_UNROLL
    for (int c = 0; c < N / 4; ++c) {
      const Words<16> turned = turn_words(row[0].word[c], row[1].word[c], row[2].word[c], row[3].word[c]);
      SHARD8_UNROLL
      for (int k = 0; k < 4; ++k) word[column + 4 * c + k][place] = turned.word[k];
    }
  }
  /// Leaves what of `rows` and `cols` there is at `to`, columns `stride` bytes apart.
  template <int N, class AnyMember>
  KOKKOS_FORCEINLINE_FUNCTION void store(const AnyMember& team, std::uint8_t* to, std::int64_t stride,
                                         std::int64_t rows, std::int64_t cols) const {
    for (int i = team.team_rank(); i < kSide * kChunks; i += team.team_size()) {
      const int column = i / kChunks, chunk = i % kChunks;
      if (column >= cols || 16 * chunk >= rows) continue;
      store_words(to + column * stride + 16 * chunk, load_words<16>(&word[column][4 * (chunk ^ turn<N>(column))]));
    }
  }

 private:
  template <int N>
  KOKKOS_FORCEINLINE_FUNCTION static int turn(int column) {
    return column / N % kChunks;
  }
};

/// N elements as floats, of Values rounded to T, or of lanes as they are.
template <class T, int N>
KOKKOS_FORCEINLINE_FUNCTION auto rounded(const Values<N>& values) {
  return Packed<N, 1>{0}.template round<T>(values);
}
template <class T, class Lanes>
KOKKOS_FORCEINLINE_FUNCTION const Lanes& rounded(const Lanes& lanes) {
  return lanes;
}
template <int N>
struct Numbers {
  float at[N];
  template <class Lanes>
  KOKKOS_FORCEINLINE_FUNCTION explicit Numbers(const Lanes& lanes) {
    SHARD8_UNROLL
    for (int k = 0; k < N; ++k) at[k] = lanes[k];
  }
};

/// A team's tile: each thread has packs of the same columns in fours of rows.
template <class E, class Maker>
struct CastTiles {
  static constexpr int kN = kPack<typename Maker::Type>, kParts = Maker::kParts, kSide = CodeTile::kSide;
  static constexpr int kAcross = kSide / kN, kGroups = kTeamThreads / kAcross;
  using Width = Packed<kN, 1>;
  using In = decltype(std::declval<Maker>().load(Width{0}, 0));
  using Bounds = Kokkos::LaunchBounds<kTeamThreads, sizeof(In) <= 32 ? 3 : 2>;

  struct Scratch {
    CodeTile part[kParts];
  };

  Emitter<E> out;
  Maker maker;
  std::int64_t rows, cols;

  std::int64_t count() const { return (rows + kSide - 1) / kSide * ((cols + kSide - 1) / kSide); }

  template <class AnyMember>
  KOKKOS_INLINE_FUNCTION void operator()(const AnyMember& team, std::int64_t index, Scratch& scratch) const {
    const std::int64_t across = (cols + kSide - 1) / kSide, down = index / across;
    const std::int64_t row0 = down * kSide, col0 = (index - down * across) * kSide;
    const int group = team.team_rank() / kAcross, column = team.team_rank() % kAcross * kN;
    const float factor = *out.scale;
    const CastTotals totals = out.totals.seen(team);
    CastStats stats;
    for (int four = group; four < kSide / 4; four += kGroups) {
      if (row0 + 4 * four < rows && col0 + column < cols) {
        stats += cast_rows(scratch, row0, four, col0, column, factor);
      }
    }
    team.team_barrier();
    SHARD8_UNROLL
    for (int p = 0; p < kParts; ++p) {
      auto* const to = reinterpret_cast<std::uint8_t*>(out.transposed) + (p * cols + col0) * rows + row0;
      scratch.part[p].template store<kN>(team, to, rows, rows - row0, cols - col0);
    }
    totals.add(team, stats);
    if (index == 0) once(team, [=, to = out.scale_inv] { *to = 1.0f / factor; });
  }

 private:
  /// Four rows, which are loaded at once.
  KOKKOS_FORCEINLINE_FUNCTION CastStats cast_rows(Scratch& scratch, std::int64_t row0, int four, std::int64_t col0,
                                                  int column, float factor) const {
    const Width w{0};
    const std::int64_t row = row0 + 4 * four, first = row * kParts * cols + col0 + column, stride = kParts * cols;
    In in[4];
    SHARD8_UNROLL
    for (int r = 0; r < 4; ++r) in[r] = maker.row(row + r).load(w, col0 + column);
    Words<kN> codes[kParts][4];
    CastStats stats;
    SHARD8_UNROLL
    for (int r = 0; r < 4; ++r) {
      const auto made = maker.make(w, in[r]);
      SHARD8_UNROLL
      for (int p = 0; p < kParts; ++p) {
        const std::int64_t at = first + r * stride + p * cols;
        const auto lanes = rounded<typename E::Type>(made.part[p]);
        if constexpr (E::kPlain) w.store_lanes(out.plain, at, lanes);
        stats += cast_pack<typename E::Format>(codes[p][r], Numbers<kN>(lanes).at, factor);
        store_words(out.quantized + at, codes[p][r]);
      }
    }
    SHARD8_UNROLL
    for (int p = 0; p < kParts; ++p) scratch.part[p].put(four, column, codes[p]);
    return stats;
  }
};

/// Whether chunks of 16 rows can be put in the transposed cast, and that is wanted.
template <class E>
bool turns([[maybe_unused]] const Emitter<E>& out, [[maybe_unused]] std::int64_t rows) {
  if constexpr (E::kCast) return out.transposed != nullptr && rows % 16 == 0 && packs_fit<16>(16, out.transposed);
  return false;
}

/// Whether a device left all that is asked for of (rows, cols), the transposed cast too: not on hosts, nor where
/// that is not wanted or packs do not fit.
template <class E, class Maker>
bool emit_tiles(const Exec& exec, const char* label, const Emitter<E>& out, const Maker& maker, std::int64_t rows,
                std::int64_t cols, bool fits) {
  if constexpr (kHostExec || !E::kCast) {
    return false;
  } else {
    if (!fits || !turns(out, rows)) return false;
    using Tiles = CastTiles<E, Maker>;
    const Tiles tiles{out, maker, rows, cols};
    for_rows_with<typename Tiles::Scratch, typename Tiles::Bounds>(exec, label, tiles.count(), tiles);
    return true;
  }
}

}  // namespace shard8::kernels
