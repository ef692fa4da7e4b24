// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "kernels/kokkos/emit.hpp"
#include "kernels/kokkos/transpose_tile.hpp"

/// What is made on a device, cast and wanted transposed too, in one pass over tiles. A maker says what is made, of
/// kInputs matrices: maker.row(r) is that of the row r below its own; its load(w, i) is what it reads for the elements
/// i of a width, and make(w, that) the Parts that come of them, Values to be rounded or lanes as they are.
namespace shard8::kernels {

/// A row of R elements makes one of kParts·R: part p of element i is element p·R + i.
template <int kParts, class V>
struct Parts {
  V part[kParts];
};

/// Codes of kRows rows and 128 columns on their way from rows to columns, as words of four rows of a column. A line is
/// as many columns as there are banks for; every pack of columns has its fours of words in another order, so that
/// neighbouring threads write to different banks.
template <int kRows>
struct CodeTile {
  static constexpr unsigned kColumns = 128, kBanks = 32, kWords = kRows / 4, kChunks = kRows / 16,
                            kPerLine = kBanks / kWords;
  alignas(16) std::uint32_t word[kColumns / kPerLine][kBanks];

  /// The codes of N columns in rows 4·four to 4·four + 3.
  template <int N>
  KOKKOS_FORCEINLINE_FUNCTION void put(unsigned four, unsigned column, const Words<N> (&row)[4]) {
    SHARD8_UNROLL
    for (unsigned c = 0; c < N / 4; ++c) {
      std::uint32_t square[4] = {row[0].word[c], row[1].word[c], row[2].word[c], row[3].word[c]};
      tensor::transpose_4x4(square);
      SHARD8_UNROLL
      for (unsigned k = 0; k < 4; ++k) {
        const unsigned at = column + 4 * c + k;
        word[at / kPerLine][4 * chunk<N>(at, four / 4) + four % 4] = square[k];
      }
    }
  }
  /// Changes the codes of N columns in one row.
  template <int N>
  KOKKOS_INLINE_FUNCTION void patch(unsigned row, unsigned column, const Words<N>& codes) {
    for (unsigned k = 0; k < N; ++k) {
      const unsigned at = column + k, shift = row % 4 * 8;
      std::uint32_t& four = word[at / kPerLine][4 * chunk<N>(at, row / 16) + row / 4 % 4];
      four = (four & ~(0xffu << shift)) | (codes.word[k / 4] >> (k % 4 * 8) & 0xffu) << shift;
    }
  }
  /// Leaves what of `rows` and `cols` there is at `to`, columns `stride` bytes apart; by kThreads threads.
  template <int N, unsigned kThreads>
  KOKKOS_FORCEINLINE_FUNCTION void store(unsigned rank, std::uint8_t* to, std::int64_t stride, std::int64_t rows,
                                         std::int64_t cols) const {
    static_assert(kThreads % kChunks == 0 && kColumns * kChunks % kThreads == 0);
    const unsigned part = rank % kChunks, first = rank / kChunks;
    if (16 * part >= rows) return;
    std::uint8_t* place = to + first * stride + 16 * part;
    SHARD8_UNROLL
    for (unsigned i = 0; i < kColumns * kChunks / kThreads; ++i) {
      const unsigned column = first + i * (kThreads / kChunks);
      if (column < cols) store_global(place, load_words<16>(&word[column / kPerLine][4 * chunk<N>(column, part)]));
      place += stride * (kThreads / kChunks);
    }
  }

 private:
  /// Where in its line a column has four words.
  template <int N>
  KOKKOS_FORCEINLINE_FUNCTION static unsigned chunk(unsigned column, unsigned which) {
    return (column % kPerLine * kChunks + which) ^ (column / N % (kBanks / 4));
  }
};

/// What is made as lanes: Values rounded to T, or lanes as they are.
template <class T, int N>
KOKKOS_FORCEINLINE_FUNCTION auto rounded(const Values<N>& values) {
  return Packed<N, 1>{0}.template round_results<T>(values);
}
template <class T, class Lanes>
KOKKOS_FORCEINLINE_FUNCTION Lanes rounded(const Lanes& lanes) {
  return lanes;
}

/// No cast besides.
struct NoCast {
  static constexpr bool kIs = false;
};
/// A cast besides, of what Maker::beside(w, in) makes of the same: one element of each, left transposed alone.
template <class Q>
struct CastBeside {
  static constexpr bool kIs = true;
  using Format = Q;
  Q* transposed;
  const float* scale;
  float* scale_inv;
};

/// A team's tile: each thread has packs of the same columns in fours of rows. kTurned: the cast is left transposed,
/// too.
template <class E, class Maker, class Beside = NoCast, bool kTurned = E::kCast>
struct CastTiles {
  using T = typename E::Type;
  /// Packs of eight bytes where several inputs are read: registers for all of four rows of them, as measured.
  static constexpr int kN = Maker::kInputs > 1 ? 4 : kPack<typename Maker::Type>, kParts = Maker::kParts;
  static constexpr int kTiles = (kTurned ? kParts : 0) + (Beside::kIs ? 1 : 0);
  static constexpr int kRows = kTiles < 3 ? 128 : 64;  ///< so that shared memory has them
  static constexpr unsigned kThreads = kTeamThreads, kColumns = 128, kAcross = kColumns / kN,
                            kGroups = kThreads / kAcross, kFours = kRows / 4;
  using Width = Packed<kN, 1>;
  using In = decltype(std::declval<Maker>().load(Width{0}, 0));
  using Made = std::remove_cvref_t<decltype(rounded<T>(std::declval<Maker>().make(Width{0}, In{}).part[0]))>;
  using Bounds = Kokkos::LaunchBounds<kThreads, sizeof(In) <= 32 ? 3 : 2>;
  using Tile = CodeTile<kRows>;
  /// What saturates is looked for only where the largest of four rows may.
  static constexpr bool kLater = E::kCast && kOfBf16<Made>;

  struct Scratch {
    Tile tile[kTiles > 0 ? kTiles : 1];  ///< of the parts, then of what is cast besides
  };

  Emitter<E> out;
  Maker maker;
  std::int64_t rows, cols;
  Beside beside = {};
  std::uint32_t across = static_cast<std::uint32_t>((cols + kColumns - 1) / kColumns);

  std::int64_t count() const { return (rows + kRows - 1) / kRows * across; }

  template <class AnyMember>
  KOKKOS_INLINE_FUNCTION void operator()(const AnyMember& team, std::int64_t index, Scratch& scratch) const {
    const auto tile = static_cast<std::uint32_t>(index), down = tile / across;
    const auto rank = static_cast<unsigned>(team.team_rank());
    const At at{static_cast<std::int64_t>(down) * kRows, static_cast<std::int64_t>(tile - down * across) * kColumns,
                rank % kAcross * kN};
    const CastTotals totals = out.totals.seen(team);
    float factor = 1, factor_beside = 1;
    if constexpr (E::kCast) factor = *out.scale;
    if constexpr (Beside::kIs) factor_beside = *beside.scale;
    CastStats stats;
    std::uint32_t largest = 0;
    if (at.col0 + at.column < cols) {
      SHARD8_NO_UNROLL
      for (unsigned four = rank / kAcross; four < kFours; four += kGroups) {
        if (at.row0 + 4 * four < rows) {
          cast_rows(scratch, at, four, factor, factor_beside, stats, largest);
        }
      }
    }
    if constexpr (kTiles > 0) {
      team.team_barrier();
      const auto store = [&](const Tile& from, auto* to) {
        auto* const first = reinterpret_cast<std::uint8_t*>(to) + at.col0 * rows + at.row0;
        from.template store<kN, kThreads>(rank, first, rows, rows - at.row0, cols - at.col0);
      };
      if constexpr (kTurned) {
        SHARD8_UNROLL
        for (int p = 0; p < kParts; ++p) store(scratch.tile[p], out.transposed + p * cols * rows);
      }
      if constexpr (Beside::kIs) store(scratch.tile[kTiles - 1], beside.transposed);
    }
    if constexpr (E::kStats) {
      const std::int32_t amax = magnitude_of(largest);
      stats.amax = amax > stats.amax ? amax : stats.amax;
      totals.add(team, stats);
    }
    if (index == 0) {
      once(team, [&] {
        if constexpr (E::kCast) *out.scale_inv = 1.0f / factor;
        if constexpr (Beside::kIs) *beside.scale_inv = 1.0f / factor_beside;
      });
    }
  }

 private:
  /// Where a tile begins, and in it a thread's columns.
  struct At {
    std::int64_t row0, col0;
    unsigned column;
  };

  /// Four rows, which are loaded at once.
  KOKKOS_FORCEINLINE_FUNCTION void cast_rows(Scratch& scratch, const At& at, unsigned four,
                                             [[maybe_unused]] float factor, [[maybe_unused]] float factor_beside,
                                             [[maybe_unused]] CastStats& stats,
                                             [[maybe_unused]] std::uint32_t& largest) const {
    const Width w{0};
    const std::int64_t row = at.row0 + 4 * four, first = row * kParts * cols + at.col0 + at.column;
    Maker of[4];
    In in[4];
    SHARD8_UNROLL
    for (int r = 0; r < 4; ++r) {
      of[r] = r == 0 ? maker.row(row) : of[r - 1].row(1);
      in[r] = of[r].load(w, at.col0 + at.column);
    }
    [[maybe_unused]] Words<kN> codes[kParts][4], codes_beside[4];
    [[maybe_unused]] std::uint32_t pair = 0;
    SHARD8_UNROLL
    for (int r = 0; r < 4; ++r) {
      const auto made = of[r].make(w, in[r]);
      SHARD8_UNROLL
      for (int p = 0; p < kParts; ++p) {
        const std::int64_t to = first + r * kParts * cols + p * cols;
        const auto lanes = rounded<T>(made.part[p]);
        if constexpr (E::kPlain) w.store_lanes(out.plain, to, lanes);
        if constexpr (kLater) {
          codes[p][r] = round_numbers<typename E::Format, kN>(lanes, 0, factor);
          stats.flushed += count_flushed(codes[p][r], lanes, 0);
          pair = larger_pair(pair, largest_pair(lanes.pack[0]));
        } else if constexpr (E::kCast) {
          stats += cast_pack<typename E::Format>(codes[p][r], pack_of<kN>(lanes, 0).at, factor);
        } else if constexpr (E::kStats) {
          stats.amax = larger_magnitude(w, lanes, stats.amax);
        }
        if constexpr (E::kCast) {
          if (!kTurned || !out.transposed_alone) store_global(out.quantized + to, codes[p][r]);
        }
      }
      // Of results of arithmetic, whose NaN is cast as it should be.
      if constexpr (Beside::kIs) {
        const auto lanes = rounded<T>(of[r].beside(w, in[r]));
        codes_beside[r] = round_numbers<typename Beside::Format, kN>(lanes, 0, factor_beside);
      }
    }
    if constexpr (kTurned) {
      SHARD8_UNROLL
      for (int p = 0; p < kParts; ++p) scratch.tile[p].put(four, at.column, codes[p]);
    }
    if constexpr (Beside::kIs) scratch.tile[kTiles - 1].put(four, at.column, codes_beside);
    if constexpr (kLater) {
      if (may_saturate<typename E::Format>(pair, factor)) {
        saturate_rows(scratch, at, four, factor, stats);
      } else {
        largest = larger_pair(largest, pair);
      }
    }
  }

  /// Makes four rows again, to count what their cast saturated; puts codes of NaN right.
  KOKKOS_INLINE_FUNCTION void saturate_rows(Scratch& scratch, const At& at, unsigned four, float factor,
                                            CastStats& stats) const {
    const Width w{0};
    SHARD8_NO_UNROLL
    for (unsigned r = 0; r < 4; ++r) {
      const unsigned in_tile = 4 * four + r;
      const std::int64_t row = at.row0 + in_tile;
      const Maker of = maker.row(row);
      const auto made = of.make(w, of.load(w, at.col0 + at.column));
      SHARD8_UNROLL
      for (int p = 0; p < kParts; ++p) {
        const std::int64_t to = (row * kParts + p) * cols + at.col0 + at.column;
        Made lanes = rounded<T>(made.part[p]);
        if constexpr (E::kPlain) lanes = w.load(out.plain, to);  // it may be where an input was
        auto codes = round_numbers<typename E::Format, kN>(lanes, 0, factor);
        const auto before = codes;
        CastStats counted = count_pack<typename E::Format>(codes, pack_of<kN>(lanes, 0).at, OneScale{factor});
        counted.amax = larger_of_each(w, lanes, 0);
        counted.flushed = 0;  // they were counted
        stats += counted;
        bool changed = false;
        SHARD8_UNROLL
        for (int k = 0; k < kN / 4; ++k) changed |= codes.word[k] != before.word[k];
        if (!changed) continue;
        if (!kTurned || !out.transposed_alone) {
          store_global(out.quantized + to, codes);
        }
        if constexpr (kTurned) scratch.tile[p].patch(in_tile, at.column, codes);
      }
    }
  }
};

/// Whether chunks of 16 rows can be put in a transposed cast, and that is wanted.
template <class Q>
bool turns(const Q* transposed, std::int64_t rows) {
  return transposed != nullptr && rows % 16 == 0 && packs_fit<16>(16, transposed);
}

/// Whether a device left all that is asked for of (rows, cols), the transposed cast too: not on hosts, nor where
/// that is not wanted or packs do not fit.
template <class E, class Maker>
bool emit_tiles(const Exec& exec, const char* label, const Emitter<E>& out, const Maker& maker, std::int64_t rows,
                std::int64_t cols, bool fits) {
  if constexpr (kHostExec || !E::kCast) {
    return false;
  } else {
    if (!fits || !turns(out.transposed, rows)) return false;
    using Tiles = CastTiles<E, Maker>;
    const Tiles tiles{out, maker, rows, cols};
    for_rows_with<typename Tiles::Scratch, typename Tiles::Bounds>(exec, label, tiles.count(), tiles);
    return true;
  }
}

/// Whether a transposed cast to Q is all that is asked for.
template <class Q>
bool is_transposed_alone(const Outputs& out) {
  return out.transposed_alone && !out.transposed.empty() && out.transposed.dtype == tensor::dtype_of<Q>() &&
         out.plain.empty() && out.amax.empty() && out.counts == nullptr;
}

/// The same of all that is asked for of (rows, cols), and of what Maker::beside makes the transposed cast that
/// `beside` asks for: nothing else, and in the format of inputs.
template <class E, class Maker>
bool emit_tiles_beside(const Exec& exec, const char* label, const Emitter<E>& out, const Maker& maker,
                       std::int64_t rows, std::int64_t cols, bool fits, const Outputs& beside) {
  if constexpr (kHostExec) {
    return false;
  } else {
    using Q = tensor::E4M3;
    if (!fits || rows * cols == 0 || !is_transposed_alone<Q>(beside)) return false;
    const CastBeside<Q> cast{beside.transposed.as<Q>(), beside.scale.as<float>(),
                             beside.quantized.scale_inv.as<float>()};
    if (!turns(cast.transposed, rows)) return false;
    const auto launch = [&]<bool kTurned>(std::bool_constant<kTurned>) {
      using Tiles = CastTiles<E, Maker, CastBeside<Q>, kTurned>;
      const Tiles tiles{out, maker, rows, cols, cast};
      for_rows_with<typename Tiles::Scratch, typename Tiles::Bounds>(exec, label, tiles.count(), tiles);
    };
    if constexpr (E::kCast) {
      if (out.transposed != nullptr) {
        if (!turns(out.transposed, rows)) return false;
        launch(std::true_type{});
        return true;
      }
    }
    launch(std::false_type{});
    return true;
  }
}

}  // namespace shard8::kernels
