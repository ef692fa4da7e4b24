// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "kernels/kokkos/transpose_tile.hpp"
#include "kernels/kokkos/write_outputs.hpp"

/// A kernel for devices that computes a result, casts it and transposes the cast, in one pass over tiles. A Formula
/// computes the result from kInputs matrices. formula.row(r) is the formula for the r-th row after its own row. load(w,
/// i) reads the inputs of the elements i of a width w. compute(w, inputs) returns the Parts of the result: Values,
/// which must still be rounded, or lanes, which are rounded already.
namespace shard8::kernels {

/// The result of one element: kParts numbers. In a result's row of kParts·R elements, part p of element i is element
/// p·R + i.
template <int kParts, class V>
struct Parts {
  V part[kParts];
};

/// The codes of kRows rows and 128 columns in shared memory, while they are transposed. A word holds the codes of four
/// rows of one column. A line holds as many columns as fit in all banks. Each pack of columns stores its groups of four
/// words in another order, so neighbouring threads write to different banks.
template <int kRows>
struct CodeTile {
  static constexpr unsigned kColumns = 128, kBanks = 32, kWords = kRows / 4, kChunks = kRows / 16,
                            kPerLine = kBanks / kWords;
  alignas(16) std::uint32_t word[kColumns / kPerLine][kBanks];

  /// Stores the codes of N columns in rows 4·four to 4·four + 3.
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
  /// Overwrites the codes of N columns in one row.
  template <int N>
  KOKKOS_INLINE_FUNCTION void patch(unsigned row, unsigned column, const Words<N>& codes) {
    for (unsigned k = 0; k < N; ++k) {
      const unsigned at = column + k, shift = row % 4 * 8;
      std::uint32_t& four = word[at / kPerLine][4 * chunk<N>(at, row / 16) + row / 4 % 4];
      four = (four & ~(0xffu << shift)) | (codes.word[k / 4] >> (k % 4 * 8) & 0xffu) << shift;
    }
  }
  /// Writes the part of the tile inside `rows` and `cols` to `to`, columns `stride` bytes apart, by kThreads threads.
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
  /// The place of group `which` of a column's four words, in the line of the column.
  template <int N>
  KOKKOS_FORCEINLINE_FUNCTION static unsigned chunk(unsigned column, unsigned which) {
    return (column % kPerLine * kChunks + which) ^ (column / N % (kBanks / 4));
  }
};

/// A result as lanes: Values rounded to T, or lanes as they are.
template <class T, int N>
KOKKOS_FORCEINLINE_FUNCTION auto rounded(const Values<N>& values) {
  return Packed<N, 1>{0}.template round_results<T>(values);
}
template <class T, class Lanes>
KOKKOS_FORCEINLINE_FUNCTION Lanes rounded(const Lanes& lanes) {
  return lanes;
}

/// No forward result is recomputed.
struct NoRecomputedCast {
  static constexpr bool kPresent = false;
};
/// For a backward kernel that also recomputes a forward result: Formula::recompute(w, in) gives one recomputed element
/// for each element of the inputs. Only the transposed cast of the recomputed result is written.
template <class Q>
struct RecomputedCast {
  static constexpr bool kPresent = true;
  using Format = Q;
  Q* transposed;
  const float* scale;
  float* scale_inv;
};

/// The tile of a team. Each thread takes packs of the same columns, in groups of four rows. kTransposed: the transposed
/// cast is written as well.
template <class E, class Formula, class Recomputed = NoRecomputedCast, bool kTransposed = E::kCast>
struct CastTiles {
  using T = typename E::Type;
  /// Packs are 8 bytes where several inputs are read, so that four rows of all inputs fit in registers (measured).
  static constexpr int kN = Formula::kInputs > 1 ? 4 : kPack<typename Formula::Type>, kParts = Formula::kParts;
  static constexpr int kTiles = (kTransposed ? kParts : 0) + (Recomputed::kPresent ? 1 : 0);
  static constexpr int kRows = kTiles < 3 ? 128 : 64;  ///< as many as fit in shared memory
  static constexpr unsigned kThreads = kTeamThreads, kColumns = 128, kAcross = kColumns / kN,
                            kGroups = kThreads / kAcross, kFours = kRows / 4;
  using Width = Packed<kN, 1>;
  using In = decltype(std::declval<Formula>().load(Width{0}, 0));
  using Result = std::remove_cvref_t<decltype(rounded<T>(std::declval<Formula>().compute(Width{0}, In{}).part[0]))>;
  using Bounds = Kokkos::LaunchBounds<kThreads, sizeof(In) <= 32 ? 3 : 2>;
  using Tile = CodeTile<kRows>;
  /// Whether saturated elements are counted in a second pass, which runs only if the largest of four rows may saturate.
  static constexpr bool kLater = E::kCast && kOfBf16<Result>;

  struct Scratch {
    Tile tile[kTiles > 0 ? kTiles : 1];  ///< one for each part, then one for the recomputed result
  };

  OutputWriter<E> out;
  Formula formula;
  std::int64_t rows, cols;
  Recomputed recomputed = {};
  std::uint32_t across = static_cast<std::uint32_t>((cols + kColumns - 1) / kColumns);
  std::int64_t stride = rows;  ///< from one row of a transposed cast to the next

  /// The tiles of the first n rows, n a multiple of 16.
  KOKKOS_FORCEINLINE_FUNCTION CastTiles until(std::int64_t n) const {
    CastTiles tiles = *this;
    tiles.rows = n;
    return tiles;
  }
  KOKKOS_FORCEINLINE_FUNCTION std::int64_t count() const { return (rows + kRows - 1) / kRows * across; }

  template <class AnyMember>
  KOKKOS_INLINE_FUNCTION void operator()(const AnyMember& team, std::int64_t index, Scratch& scratch) const {
    const auto tile = static_cast<std::uint32_t>(index), down = tile / across;
    const auto rank = static_cast<unsigned>(team.team_rank());
    const At at{static_cast<std::int64_t>(down) * kRows, static_cast<std::int64_t>(tile - down * across) * kColumns,
                rank % kAcross * kN};
    const CastTotals totals = out.totals.seen(team);
    float factor = 1, recomputed_factor = 1;
    if constexpr (E::kCast) factor = *out.scale;
    if constexpr (Recomputed::kPresent) recomputed_factor = *recomputed.scale;
    CastStats stats;
    std::uint32_t largest = 0;
    if (at.col0 + at.column < cols) {
      SHARD8_NO_UNROLL
      for (unsigned four = rank / kAcross; four < kFours; four += kGroups) {
        if (at.row0 + 4 * four < rows) {
          cast_rows(scratch, at, four, factor, recomputed_factor, stats, largest);
        }
      }
    }
    if constexpr (kTiles > 0) {
      team.team_barrier();
      const auto store = [&](const Tile& from, auto* to) {
        auto* const first = reinterpret_cast<std::uint8_t*>(to) + at.col0 * stride + at.row0;
        from.template store<kN, kThreads>(rank, first, stride, rows - at.row0, cols - at.col0);
      };
      if constexpr (kTransposed) {
        SHARD8_UNROLL
        for (int p = 0; p < kParts; ++p) store(scratch.tile[p], out.transposed + p * cols * stride);
      }
      if constexpr (Recomputed::kPresent) store(scratch.tile[kTiles - 1], recomputed.transposed);
    }
    if constexpr (E::kStats) {
      const std::int32_t amax = magnitude_of(largest);
      stats.amax = amax > stats.amax ? amax : stats.amax;
      totals.add(team, stats);
    }
    if (index == 0) {
      once(team, [&] {
        if constexpr (E::kCast) *out.scale_inv = 1.0f / factor;
        if constexpr (Recomputed::kPresent) *recomputed.scale_inv = 1.0f / recomputed_factor;
      });
    }
  }

 private:
  /// Where a tile begins in the matrix, and where the columns of a thread begin in the tile.
  struct At {
    std::int64_t row0, col0;
    unsigned column;
  };

  /// Computes and casts four rows. All four are loaded before the first is computed.
  KOKKOS_FORCEINLINE_FUNCTION void cast_rows(Scratch& scratch, const At& at, unsigned four,
                                             [[maybe_unused]] float factor, [[maybe_unused]] float recomputed_factor,
                                             [[maybe_unused]] CastStats& stats,
                                             [[maybe_unused]] std::uint32_t& largest) const {
    const Width w{0};
    const std::int64_t row = at.row0 + 4 * four, first = row * kParts * cols + at.col0 + at.column;
    Formula of[4];
    In in[4];
    SHARD8_UNROLL
    for (int r = 0; r < 4; ++r) {
      of[r] = r == 0 ? formula.row(row) : of[r - 1].row(1);
      in[r] = of[r].load(w, at.col0 + at.column);
    }
    [[maybe_unused]] Words<kN> codes[kParts][4], recomputed_codes[4];
    [[maybe_unused]] std::uint32_t pair = 0;
    SHARD8_UNROLL
    for (int r = 0; r < 4; ++r) {
      const auto result = of[r].compute(w, in[r]);
      SHARD8_UNROLL
      for (int p = 0; p < kParts; ++p) {
        const std::int64_t to = first + r * kParts * cols + p * cols;
        const auto lanes = rounded<T>(result.part[p]);
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
          if (!kTransposed || !out.transposed_alone) store_global(out.quantized + to, codes[p][r]);
        }
      }
      // Recomputed results come from arithmetic, which gives one NaN only; the instruction casts that NaN correctly.
      if constexpr (Recomputed::kPresent) {
        const auto lanes = rounded<T>(of[r].recompute(w, in[r]));
        recomputed_codes[r] = round_numbers<typename Recomputed::Format, kN>(lanes, 0, recomputed_factor);
      }
    }
    if constexpr (kTransposed) {
      SHARD8_UNROLL
      for (int p = 0; p < kParts; ++p) scratch.tile[p].put(four, at.column, codes[p]);
    }
    if constexpr (Recomputed::kPresent) scratch.tile[kTiles - 1].put(four, at.column, recomputed_codes);
    if constexpr (kLater) {
      if (may_saturate<typename E::Format>(pair, factor)) {
        saturate_rows(scratch, at, four, factor, stats);
      } else {
        largest = larger_pair(largest, pair);
      }
    }
  }

  /// Computes four rows a second time, counts the elements that saturated, and corrects the codes of NaN.
  KOKKOS_INLINE_FUNCTION void saturate_rows(Scratch& scratch, const At& at, unsigned four, float factor,
                                            CastStats& stats) const {
    const Width w{0};
    SHARD8_NO_UNROLL
    for (unsigned r = 0; r < 4; ++r) {
      const unsigned in_tile = 4 * four + r;
      const std::int64_t row = at.row0 + in_tile;
      const Formula of = formula.row(row);
      const auto result = of.compute(w, of.load(w, at.col0 + at.column));
      SHARD8_UNROLL
      for (int p = 0; p < kParts; ++p) {
        const std::int64_t to = (row * kParts + p) * cols + at.col0 + at.column;
        Result lanes = rounded<T>(result.part[p]);
        // An input may have been in the same memory, so the result is read back.
        if constexpr (E::kPlain) lanes = w.load(out.plain, to);
        auto codes = round_numbers<typename E::Format, kN>(lanes, 0, factor);
        const auto before = codes;
        CastStats counted = count_pack<typename E::Format>(codes, pack_of<kN>(lanes, 0).at, OneScale{factor});
        counted.amax = larger_of_each(w, lanes, 0);
        counted.flushed = 0;  // cast_rows counted them
        stats += counted;
        bool changed = false;
        SHARD8_UNROLL
        for (int k = 0; k < kN / 4; ++k) changed |= codes.word[k] != before.word[k];
        if (!changed) continue;
        if (!kTransposed || !out.transposed_alone) {
          store_global(out.quantized + to, codes);
        }
        if constexpr (kTransposed) scratch.tile[p].patch(in_tile, at.column, codes);
      }
    }
  }
};

/// Whether a transposed cast is requested and can be written in chunks of 16 rows.
template <class Q>
bool can_transpose(const Q* transposed, std::int64_t rows) {
  return transposed != nullptr && rows % 16 == 0 && packs_fit<16>(16, transposed);
}

/// Writes all forms of a result that `out` requests (rows, cols), the transposed cast included, and returns true.
/// Returns false and writes nothing on hosts, if no transposed cast is requested, and if packs do not fit.
template <class E, class Formula>
bool write_tiles(const Exec& exec, const char* label, const OutputWriter<E>& out, const Formula& formula,
                 std::int64_t rows, std::int64_t cols, bool fits) {
  if constexpr (kHostExec || !E::kCast) {
    return false;
  } else {
    if (!fits || !can_transpose(out.transposed, rows)) return false;
    using Tiles = CastTiles<E, Formula>;
    const Tiles tiles{out, formula, rows, cols};
    for_rows_with<typename Tiles::Scratch, typename Tiles::Bounds>(exec, label, tiles.count(), tiles);
    return true;
  }
}

/// Whether nothing but a transposed cast to Q is requested.
template <class Q>
bool is_transposed_alone(const Outputs& out) {
  return out.transposed_alone && !out.transposed.empty() && out.transposed.dtype == tensor::dtype_of<Q>() &&
         out.plain.empty() && out.amax.empty() && out.counts == nullptr;
}

/// As write_tiles, and also writes the transposed cast of the forward result that Formula::recompute gives.
/// `recomputed` must request that transposed cast alone, in the format of inputs (e4m3); otherwise the function returns
/// false.
template <class E, class Formula>
bool write_tiles_and_recomputed(const Exec& exec, const char* label, const OutputWriter<E>& out, const Formula& formula,
                                std::int64_t rows, std::int64_t cols, bool fits, const Outputs& recomputed) {
  if constexpr (kHostExec) {
    return false;
  } else {
    using Q = tensor::E4M3;
    if (!fits || rows * cols == 0 || !is_transposed_alone<Q>(recomputed)) return false;
    const RecomputedCast<Q> cast{recomputed.transposed.as<Q>(), recomputed.scale.as<float>(),
                                 recomputed.quantized.scale_inv.as<float>()};
    if (!can_transpose(cast.transposed, rows)) return false;
    const auto launch = [&]<bool kTransposed>(std::bool_constant<kTransposed>) {
      using Tiles = CastTiles<E, Formula, RecomputedCast<Q>, kTransposed>;
      const Tiles tiles{out, formula, rows, cols, cast};
      for_rows_with<typename Tiles::Scratch, typename Tiles::Bounds>(exec, label, tiles.count(), tiles);
    };
    if constexpr (E::kCast) {
      if (out.transposed != nullptr) {
        if (!can_transpose(out.transposed, rows)) return false;
        launch(std::true_type{});
        return true;
      }
    }
    launch(std::false_type{});
    return true;
  }
}

}  // namespace shard8::kernels
