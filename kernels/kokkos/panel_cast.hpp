// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "kernels/kokkos/cast_tiles.hpp"
#include "kernels/kokkos/quantize_panels.hpp"

namespace shard8::kernels {

/// Casts panels of 128 rows and 128 columns of a matrix (rows, cols), on a device. A team of 256 threads holds a panel
/// in registers, each thread packs `In` of kRows rows. kAcross neighbouring threads share a row; kPer groups of such
/// threads share a block of rows. kTransposed: the columnwise cast is transposed in shared memory and written as (cols,
/// rows); a thread then takes neighbouring rows. Blocks must be those of 128 elements.
template <class Rule, Blocks kBlocks, class In, bool kTransposed>
struct PanelCast {
  using Format = typename Rule::Format;
  using Inverse = typename Rule::Inverse;
  static constexpr int kN = In::kCount, kThreads = 256, kWidth = 128, kBlock = static_cast<int>(Rule::kBlock);
  using Width = Packed<kN, 1>;
  static constexpr int kAcross = kWidth / kN, kGroups = kThreads / kAcross, kRows = kWidth / kGroups;
  static constexpr int kDown = kWidth / kBlock, kPer = kGroups / kDown, kWarps = kThreads / 32;
  static constexpr int kShare = kBlock / kN;                     ///< threads that share a block along rows
  static constexpr int kEach = kRows < kShare ? kRows : kShare;  ///< rows whose scales kShare threads compute at once
  static constexpr bool kRow = kBlocks == Blocks::row || kBlocks == Blocks::both, kColumn = kBlocks != Blocks::row,
                        kSquare = kBlocks == Blocks::square;
  static constexpr int kStep = kTransposed ? 1 : kPer;  ///< from one row of a thread to the next
  static_assert(kShare <= 32 && kAcross <= 32 && kPer * kAcross % 32 == 0 && kRows % kEach == 0);
  static_assert(!kTransposed || (kColumn && !kSquare && kBlock == kWidth && kRows % 4 == 0));

  struct Nothing {};
  struct ByBlock {
    std::int32_t amax[kColumn ? kWarps : 1][kWidth];
    alignas(16) float scale[kDown][kWidth];
    std::conditional_t<kTransposed, CodeTile<kWidth>, Nothing> tile;
  };
  using Scratch = std::conditional_t<kSquare, Nothing, ByBlock>;

  Quantized<Rule> row, column;  ///< square blocks use `column`
  std::int64_t rows, cols;
  bool power_of_2;
  bool compares;
  std::int64_t stride = rows;  ///< from one row of the transposed cast to the next

  /// Where a thread's elements lie: kRows rows from row0 on, kStep apart, and kN columns from col on.
  struct Place {
    std::int64_t row0, col;
    bool inside;  ///< whether the columns are in the matrix
  };
  /// What a thread found: its stats, and the largest change of an inverse scale that it wrote.
  struct Found {
    CastStats stats;
    std::int32_t change;
  };

  /// The place of thread `rank` in panel row `down`, in the panel whose first column is col0.
  KOKKOS_FORCEINLINE_FUNCTION Place place(int rank, std::int64_t down, std::int64_t col0) const {
    const int group = rank / kAcross;
    const std::int64_t col = col0 + rank % kAcross * kN;
    return {down * kWidth + (kTransposed ? group * kRows : group / kPer * kBlock + group % kPer), col, col < cols};
  }

  /// Writes the casts of the panel `in`, whose elements outside the matrix are 0. If a team casts several panels, each
  /// with columnwise blocks, one after the other, they may share the scratch: the first barrier of a call comes after
  /// all reads of the call before it.
  template <class AnyMember, class AnyScratch>
  KOKKOS_FORCEINLINE_FUNCTION Found cast(const AnyMember& team, std::int64_t down, std::int64_t col0,
                                         const In (&in)[kRows], AnyScratch& scratch) const {
    if constexpr (kSquare) {
      return cast_square(team, down, col0, in);
    } else {
      return cast_blocks(team, down, col0, in, scratch);
    }
  }

 private:
  /// What cast() does where the panel is one square block: the team finds the amax of all its elements, which share one
  /// scale.
  template <class AnyMember>
  KOKKOS_FORCEINLINE_FUNCTION Found cast_square(const AnyMember& team, std::int64_t down, std::int64_t col0,
                                                const In (&in)[kRows]) const {
    const int rank = team.team_rank();
    const Place at = place(rank, down, col0);
    std::int32_t amax = 0, change = 0;
    SHARD8_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const std::int32_t one = larger_number(in[r]);
      amax = one > amax ? one : amax;
    }
    amax = team_largest(team, amax);
    const OneScale scale{Rule::scale(amax, power_of_2)};
    if (rank == 0) {
      Inverse& to = column.scale_inv[down * (cols / kBlock) + col0 / kBlock];
      change = write_block_scale(to, Rule::inverse(amax, scale[0]), compares);
    }
    const auto cast_all = [&](auto all_finite) {
      CastStats stats;
      SHARD8_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const std::int64_t one_row = at.row0 + r * kStep;
        if (at.inside && one_row < rows)
          stats += cast_to<decltype(all_finite)::value>(column.data + (one_row * cols + at.col), in[r], scale);
      }
      return stats;
    };
    const bool finite = kOfBf16<In> && amax < static_cast<std::int32_t>(kInfinityBits);
    return {finite ? cast_all(std::bool_constant<kOfBf16<In>>{}) : cast_all(std::false_type{}), change};
  }

  /// What cast() does where each row or each column of the panel has scales of its own, or both have, in two casts.
  template <class AnyMember, class AnyScratch>
  KOKKOS_FORCEINLINE_FUNCTION Found cast_blocks(const AnyMember& team, std::int64_t down, std::int64_t col0,
                                                const In (&in)[kRows], AnyScratch& scratch) const {
    const int rank = team.team_rank(), group = rank / kAcross, column_in_panel = rank % kAcross * kN;
    const Place at = place(rank, down, col0);
    const Width w{0};
    std::int32_t change = 0;
    bool finite = false;  // whether the whole panel is known to be finite
    if constexpr (kColumn) {
      find_columns(team, in, scratch);
      const Result result = compute_columns(team, down, col0, scratch);
      change = result.change;
      finite = kOfBf16<In> && !result.odd;
    }
    // Each of the neighbouring threads that share rows computes the scale of one row.
    float scales[kRows / kEach] = {};
    SHARD8_UNROLL
    for (int first = 0; kRow && first < kRows; first += kEach) {
      std::int32_t amaxes[kEach];
      SHARD8_UNROLL
      for (int r = 0; r < kEach; ++r) amaxes[r] = larger_number(in[first + r]);
      const std::int32_t amax = largest_of_share<kShare>(rank, amaxes);
      const float scale = Rule::scale(amax, power_of_2);
      scales[first / kEach] = scale;
      const std::int64_t one_row = at.row0 + (first + rank % kEach) * kStep;
      if (at.inside && rank % kShare < kEach && one_row < rows) {
        Inverse& to = row.scale_inv[one_row * (cols / kBlock) + at.col / kBlock];
        const std::int32_t one = write_block_scale(to, Rule::inverse(amax, scale), compares);
        change = one > change ? one : change;
      }
    }
    const auto cast_all = [&](auto all_finite) {
      CastStats stats;
      [[maybe_unused]] Words<kN> four[4];  // codes of four rows, to be transposed
      SHARD8_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const std::int64_t one_row = at.row0 + r * kStep;
        [[maybe_unused]] const std::int64_t to = one_row * cols + at.col;
        const bool here = at.inside && one_row < rows;
        if constexpr (kRow) {
          const OneScale scale{of_neighbour<kShare>(scales[r / kEach], r % kEach)};
          if (here) stats += cast_to<decltype(all_finite)::value>(row.data + to, in[r], scale);
        }
        if constexpr (kColumn) {
          const auto scale = w.load(scratch.scale[group / kPer] + column_in_panel, 0);
          if constexpr (kTransposed) {
            // Rows are whole blocks; codes of columns outside are never written.
            const CastStats one = cast_codes<decltype(all_finite)::value>(four[r % 4], in[r], scale);
            if (here) stats += one;
            if (r % 4 == 3)
              scratch.tile.put(static_cast<unsigned>(group * kRows + r) / 4, static_cast<unsigned>(column_in_panel),
                               four);
          } else {
            if (here) stats += cast_to<decltype(all_finite)::value>(column.data + to, in[r], scale);
          }
        }
      }
      return stats;
    };
    const CastStats stats = finite ? cast_all(std::bool_constant<kOfBf16<In>>{}) : cast_all(std::false_type{});
    if constexpr (kTransposed) {
      team.team_barrier();
      auto* const to = reinterpret_cast<std::uint8_t*>(column.data) + col0 * stride + down * kWidth;
      scratch.tile.template store<kN, kThreads>(static_cast<unsigned>(rank), to, stride, kWidth, cols - col0);
    }
    return {stats, change};
  }

  /// codes = the cast of a pack by its scales. If the whole panel is finite, nothing saturates.
  template <bool kFinite, class Scales>
  KOKKOS_FORCEINLINE_FUNCTION static CastStats cast_codes(Words<kN>& codes, const In& in, const Scales& scales) {
    CastStats stats;
    if constexpr (kFinite) {
      float scaled[kN];
      SHARD8_UNROLL
      for (int k = 0; k < kN; ++k) scaled[k] = in[k] * scales[k];
      SHARD8_UNROLL
      for (int k = 0; k < kN; k += 4) {
        codes.word[k / 4] = tensor::cast_to_codes<Format>(scaled[k], scaled[k + 1], scaled[k + 2], scaled[k + 3]);
      }
      stats.flushed = count_flushed(codes, in, 0);
    } else {
      stats = cast_pack<Format>(codes, pack_of<kN>(in, 0).at, scales);
    }
    return stats;
  }
  /// Writes the cast of a pack by its scales.
  template <bool kFinite, class Scales>
  KOKKOS_FORCEINLINE_FUNCTION static CastStats cast_to(Format* to, const In& in, const Scales& scales) {
    Words<kN> codes;
    const CastStats stats = cast_codes<kFinite>(codes, in, scales);
    store_global(to, codes);
    return stats;
  }

  /// The largest magnitude of a pack. If the pack has NaNs, the magnitude of one of them.
  KOKKOS_FORCEINLINE_FUNCTION static std::int32_t larger_number(const In& in) {
    if constexpr (kOfBf16<In>) {
      return magnitude_of(largest_pair(in.pack[0]));
    } else {
      return larger_of_each(Width{0}, in, 0);
    }
  }

  /// Writes the amaxes of the panel's columns, one for each warp.
  template <class AnyMember, class AnyScratch>
  KOKKOS_FORCEINLINE_FUNCTION static void find_columns(const AnyMember& team, const In (&in)[kRows],
                                                       AnyScratch& scratch) {
    const int rank = team.team_rank(), column = rank % kAcross * kN;
    std::int32_t amax[kN];
    if constexpr (kOfBf16<In>) {
      SHARD8_UNROLL
      for (int k = 0; k < kN / 2; ++k) {
        std::uint32_t pair = in[0].pack[0].word[k];  // not 0: see larger_pair()
        SHARD8_UNROLL
        for (int r = 1; r < kRows; ++r) pair = larger_pair(pair, in[r].pack[0].word[k]);
        for (int step = 16; step >= kAcross; step /= 2) pair = larger_pair(pair, pair_across(pair, step));
        amax[2 * k] = static_cast<std::int32_t>(pair << 16 & 0x7fff0000u);
        amax[2 * k + 1] = static_cast<std::int32_t>(pair & 0x7fff0000u);
      }
    } else {
      SHARD8_UNROLL
      for (int k = 0; k < kN; ++k) {
        amax[k] = 0;
        SHARD8_UNROLL
        for (int r = 0; r < kRows; ++r) {
          const std::int32_t one = magnitude(in[r][k]);
          amax[k] = one > amax[k] ? one : amax[k];
        }
        for (int step = 16; step >= kAcross; step /= 2) amax[k] = larger_across(amax[k], step);
      }
    }
    if (rank % 32 < kAcross) {
      SHARD8_UNROLL
      for (int k = 0; k < kN; ++k) scratch.amax[rank / 32][column + k] = amax[k];
    }
    team.team_barrier();
  }

  /// What a thread found: the largest change of an inverse scale that it wrote, and whether a number of the panel is
  /// not finite.
  struct Result {
    std::int32_t change;
    bool odd;
  };
  /// Computes and writes the scales of the panel's columns.
  template <class AnyMember, class AnyScratch>
  KOKKOS_FORCEINLINE_FUNCTION Result compute_columns(const AnyMember& team, std::int64_t down, std::int64_t col0,
                                                     AnyScratch& scratch) const {
    constexpr int kOf = kWarps / kDown;  // warps that share a block
    std::int32_t change = 0;
    bool odd = false;
    for (int i = team.team_rank(); i < kDown * kWidth; i += kThreads) {
      const int block = i / kWidth, column_in_panel = i % kWidth;
      std::int32_t amax = 0;
      // No block has warps beyond the last, but with this bound the compiler spills no registers.
      for (int warp = block * kOf; warp < (block + 1) * kOf && warp < kWarps; ++warp) {
        const std::int32_t one = scratch.amax[warp][column_in_panel];
        amax = one > amax ? one : amax;
      }
      odd |= amax >= static_cast<std::int32_t>(kInfinityBits);
      const float scale = Rule::scale(amax, power_of_2);
      scratch.scale[block][column_in_panel] = scale;
      const std::int64_t block_row = down * kDown + block;
      if (col0 + column_in_panel < cols && block_row * kBlock < rows) {
        Inverse& to = column.scale_inv[block_row * cols + col0 + column_in_panel];
        const std::int32_t one = write_block_scale(to, Rule::inverse(amax, scale), compares);
        change = one > change ? one : change;
      }
    }
    return {change, any_of_team(team, odd)};
  }
};

}  // namespace shard8::kernels
