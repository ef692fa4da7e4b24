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

/// What is made as lanes: Values rounded to T, or lanes as they are.
template <class T, int N>
KOKKOS_FORCEINLINE_FUNCTION auto rounded(const Values<N>& values) {
  return Packed<N, 1>{0}.template round_results<T>(values);
}
template <class T, class Lanes>
KOKKOS_FORCEINLINE_FUNCTION const Lanes& rounded(const Lanes& lanes) {
  return lanes;
}

/// codes = cast(x·scale) of a pack of N lanes, and what that did.
template <class Q, int N, class Lanes>
KOKKOS_FORCEINLINE_FUNCTION CastStats cast_codes(Words<N>& codes, const Lanes& x, float scale) {
  if constexpr (kOfBf16<Lanes>) {
    CastStats stats;
    codes = round_numbers<Q, N>(x, 0, scale);
    if (any_extreme<Q>(codes)) stats = count_pack<Q>(codes, pack_of<N>(x, 0).at, OneScale{scale});
    stats.amax = larger_magnitude(Packed<N, 1>{0}, x, 0);
    return stats;
  } else {
    return cast_pack<Q>(codes, pack_of<N>(x, 0).at, scale);
  }
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

/// A team's tile: each thread has packs of the same columns in fours of rows.
template <class E, class Maker, class Beside = NoCast>
struct CastTiles {
  static constexpr int kN = kPack<typename Maker::Type>, kParts = Maker::kParts, kSide = CodeTile::kSide;
  static constexpr int kAcross = kSide / kN, kGroups = kTeamThreads / kAcross, kFours = kSide / 4 / kGroups;
  static constexpr int kCastParts = E::kCast ? kParts : 0;
  /// Codes of the cast besides that wait in registers until the tiles of the others are free.
  static constexpr bool kWaits = Beside::kIs && E::kCast;
  using Width = Packed<kN, 1>;
  using In = decltype(std::declval<Maker>().load(Width{0}, 0));
  using Bounds = Kokkos::LaunchBounds<kTeamThreads, sizeof(In) <= 32 ? 3 : 2>;
  using Four = Words<kN>[4];

  struct Scratch {
    CodeTile part[kCastParts > 0 ? kCastParts : 1];
  };

  Emitter<E> out;
  Maker maker;
  std::int64_t rows, cols;
  Beside beside = {};

  std::int64_t count() const { return (rows + kSide - 1) / kSide * ((cols + kSide - 1) / kSide); }

  template <class AnyMember>
  KOKKOS_INLINE_FUNCTION void operator()(const AnyMember& team, std::int64_t index, Scratch& scratch) const {
    const std::int64_t across = (cols + kSide - 1) / kSide, down = index / across;
    const std::int64_t row0 = down * kSide, col0 = (index - down * across) * kSide;
    const int group = team.team_rank() / kAcross, column = team.team_rank() % kAcross * kN;
    const CastTotals totals = out.totals.seen(team);
    float factor = 1, factor_beside = 1;
    if constexpr (E::kCast) factor = *out.scale;
    if constexpr (Beside::kIs) factor_beside = *beside.scale;
    CastStats stats;
    const auto in_range = [&](int four) { return row0 + 4 * four < rows && col0 + column < cols; };
    if constexpr (kWaits) {
      Four waiting[kFours];
      SHARD8_UNROLL
      for (int f = 0; f < kFours; ++f) {
        const int four = group + f * kGroups;
        if (in_range(four)) stats += cast_rows(scratch, row0, four, col0, column, factor, factor_beside, waiting[f]);
      }
      store_parts(team, scratch, row0, col0);
      team.team_barrier();
      SHARD8_UNROLL
      for (int f = 0; f < kFours; ++f) {
        const int four = group + f * kGroups;
        if (in_range(four)) scratch.part[0].put(four, column, waiting[f]);
      }
    } else {
      for (int four = group; four < kSide / 4; four += kGroups) {
        Four now;
        if (!in_range(four)) continue;
        stats += cast_rows(scratch, row0, four, col0, column, factor, factor_beside, now);
        if constexpr (Beside::kIs) scratch.part[0].put(four, column, now);
      }
      if constexpr (E::kCast) store_parts(team, scratch, row0, col0);
    }
    if constexpr (Beside::kIs) {
      team.team_barrier();
      store_part(team, scratch.part[0], beside.transposed, row0, col0);
    }
    if constexpr (E::kStats) totals.add(team, stats);
    if (index == 0) {
      once(team, [&] {
        if constexpr (E::kCast) *out.scale_inv = 1.0f / factor;
        if constexpr (Beside::kIs) *beside.scale_inv = 1.0f / factor_beside;
      });
    }
  }

 private:
  template <class AnyMember, class Q>
  KOKKOS_FORCEINLINE_FUNCTION void store_part(const AnyMember& team, const CodeTile& tile, Q* to, std::int64_t row0,
                                              std::int64_t col0) const {
    auto* const first = reinterpret_cast<std::uint8_t*>(to) + col0 * rows + row0;
    tile.template store<kN>(team, first, rows, rows - row0, cols - col0);
  }
  template <class AnyMember>
  KOKKOS_FORCEINLINE_FUNCTION void store_parts(const AnyMember& team, const Scratch& scratch, std::int64_t row0,
                                               std::int64_t col0) const {
    team.team_barrier();
    SHARD8_UNROLL
    for (int p = 0; p < kParts; ++p) {
      store_part(team, scratch.part[p], out.transposed + p * cols * rows, row0, col0);
    }
  }

  /// Four rows, which are loaded at once; the codes of what is cast besides are left in `codes_beside`.
  KOKKOS_FORCEINLINE_FUNCTION CastStats cast_rows(Scratch& scratch, std::int64_t row0, int four, std::int64_t col0,
                                                  int column, [[maybe_unused]] float factor,
                                                  [[maybe_unused]] float factor_beside,
                                                  [[maybe_unused]] Four& codes_beside) const {
    using T = typename E::Type;
    const Width w{0};
    const std::int64_t row = row0 + 4 * four, first = row * kParts * cols + col0 + column, stride = kParts * cols;
    const Maker of[4] = {maker.row(row), maker.row(row + 1), maker.row(row + 2), maker.row(row + 3)};
    In in[4];
    SHARD8_UNROLL
    for (int r = 0; r < 4; ++r) in[r] = of[r].load(w, col0 + column);
    [[maybe_unused]] Words<kN> codes[kParts][4];
    CastStats stats;
    SHARD8_UNROLL
    for (int r = 0; r < 4; ++r) {
      const auto made = of[r].make(w, in[r]);
      SHARD8_UNROLL
      for (int p = 0; p < kParts; ++p) {
        const std::int64_t at = first + r * stride + p * cols;
        const auto lanes = rounded<T>(made.part[p]);
        if constexpr (E::kPlain) w.store_lanes(out.plain, at, lanes);
        if constexpr (E::kCast) {
          stats += cast_codes<typename E::Format>(codes[p][r], lanes, factor);
          if (!out.transposed_alone) store_words(out.quantized + at, codes[p][r]);
        } else if constexpr (E::kStats) {
          stats.amax = larger_magnitude(w, lanes, stats.amax);
        }
      }
      if constexpr (Beside::kIs) {
        const auto lanes = rounded<T>(of[r].beside(w, in[r]));
        cast_codes<typename Beside::Format>(codes_beside[r], lanes, factor_beside);
      }
    }
    if constexpr (E::kCast) {
      SHARD8_UNROLL
      for (int p = 0; p < kParts; ++p) scratch.part[p].put(four, column, codes[p]);
    }
    return stats;
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
    if constexpr (E::kCast) {
      if (!turns(out.transposed, rows)) return false;
    }
    using Tiles = CastTiles<E, Maker, CastBeside<Q>>;
    const Tiles tiles{out, maker, rows, cols, cast};
    for_rows_with<typename Tiles::Scratch, typename Tiles::Bounds>(exec, label, tiles.count(), tiles);
    return true;
  }
}

}  // namespace shard8::kernels
