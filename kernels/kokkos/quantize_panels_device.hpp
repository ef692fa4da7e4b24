// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "kernels/kokkos/cast_tiles.hpp"
#include "kernels/kokkos/quantize_panels.hpp"

namespace shard8::kernels {

/// As PanelQuantizer, on a device where packs fit. A team of 256 threads holds 128 rows of 128 columns in registers, so
/// the elements are read once. kAcross neighbouring threads share a row; kPer groups of such threads share a block of
/// rows. kTransposed: the columnwise cast is transposed in shared memory and written as (cols, rows); a thread then
/// takes neighbouring rows. Only for blocks of 128.
template <class Rule, Blocks kBlocks, class Source, bool kTransposed = false>
struct PanelInRegisters {
  using Format = typename Rule::Format;
  using Inverse = typename Rule::Inverse;
  using Wide = PanelQuantizer<Rule, kBlocks, Source>;
  static constexpr int kN = kPack<typename Source::Type>, kThreads = 256, kWidth = 128,
                       kBlock = static_cast<int>(Rule::kBlock);
  using Bounds = Kokkos::LaunchBounds<kThreads, sizeof(typename Source::Type) == 2 ? 3 : 2>;
  using Width = Packed<kN, 1>;
  using In = decltype(std::declval<Source>().load(Width{0}, 0));
  static constexpr int kAcross = kWidth / kN, kGroups = kThreads / kAcross, kRows = kWidth / kGroups;
  static constexpr int kDown = kWidth / kBlock, kPer = kGroups / kDown, kWarps = kThreads / 32;
  static constexpr int kShare = kBlock / kN;                     ///< threads that share a block along rows
  static constexpr int kEach = kRows < kShare ? kRows : kShare;  ///< rows whose scales those threads compute at once
  static constexpr bool kRow = Wide::kRow, kColumn = Wide::kColumn, kSquare = kBlocks == Blocks::square;
  static constexpr int kStep = kTransposed ? 1 : kPer;  ///< from one row of a thread to the next
  static_assert(kShare <= 32 && kAcross <= 32 && kPer * kAcross % 32 == 0 && kRows % kEach == 0);
  static_assert(!kTransposed || (kColumn && !kSquare && kBlock == kWidth && kRows % 4 == 0));

  struct NoTile {};
  struct Scratch {
    std::int32_t amax[kWarps][kWidth];
    alignas(16) float scale[kDown][kWidth];
    std::conditional_t<kTransposed, CodeTile<kWidth>, NoTile> tile;
  };

  Wide all;

  std::int64_t panels() const { return (all.rows + kWidth - 1) / kWidth * across(); }

  template <class AnyMember>
  KOKKOS_INLINE_FUNCTION void operator()(const AnyMember& team, std::int64_t panel, Scratch& scratch) const {
    const std::int64_t down = panel / across();
    const int rank = team.team_rank(), group = rank / kAcross, column = rank % kAcross * kN;
    const std::int64_t row0 = down * kWidth + (kTransposed ? group * kRows : group / kPer * kBlock + group % kPer);
    const std::int64_t col = (panel - down * across()) * kWidth + column;
    const bool inside = col < all.cols;
    const Width w{0};
    In in[kRows];
    SHARD8_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const std::int64_t row = row0 + r * kStep;
      in[r] = {};
      if (inside && row < all.rows) in[r] = all.x.load(w, row * all.cols + col);
    }
    std::int32_t change = 0;
    bool finite = false;  // whether the whole panel is known to be finite
    if constexpr (kColumn) {
      find_columns(team, in, scratch);
      const Result result = compute_columns(team, panel, scratch);
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
      const float scale = Rule::scale(amax, all.power_of_2);
      scales[first / kEach] = scale;
      const std::int64_t row = row0 + (first + rank % kEach) * kStep;
      if (inside && rank % kShare < kEach && row < all.rows) {
        Inverse& place = all.row.scale_inv[row * (all.cols / kBlock) + col / kBlock];
        const std::int32_t one = Wide::write_scale(place, Rule::inverse(amax, scale), all.compares);
        change = one > change ? one : change;
      }
    }
    const auto cast = [&](auto all_finite) {
      CastStats stats;
      [[maybe_unused]] Words<kN> four[4];  // codes of four rows, to be transposed
      SHARD8_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const std::int64_t row = row0 + r * kStep;
        [[maybe_unused]] const std::int64_t at = row * all.cols + col;
        const bool here = inside && row < all.rows;
        if constexpr (kRow) {
          const OneScale scale{of_neighbour<kShare>(scales[r / kEach], r % kEach)};
          if (here) stats += cast_to<decltype(all_finite)::value>(all.row.data + at, in[r], scale);
        }
        if constexpr (kColumn) {
          const auto scale = w.load(scratch.scale[group / kPer] + column, 0);
          if constexpr (kTransposed) {
            // Rows are whole blocks; codes of columns outside are never written.
            const CastStats one = cast_codes<decltype(all_finite)::value>(four[r % 4], in[r], scale);
            if (here) stats += one;
            if (r % 4 == 3)
              scratch.tile.put(static_cast<unsigned>(group * kRows + r) / 4, static_cast<unsigned>(column), four);
          } else {
            if (here) stats += cast_to<decltype(all_finite)::value>(all.column.data + at, in[r], scale);
          }
        }
      }
      return stats;
    };
    const CastStats stats = finite ? cast(std::bool_constant<kOfBf16<In>>{}) : cast(std::false_type{});
    if constexpr (kTransposed) {
      team.team_barrier();
      const std::int64_t first = col - column;
      auto* const to = reinterpret_cast<std::uint8_t*>(all.column.data) + first * all.rows + down * kWidth;
      scratch.tile.template store<kN, kThreads>(static_cast<unsigned>(rank), to, all.rows, kWidth, all.cols - first);
    }
    CastTotals{nullptr, all.counts}.add(team, stats);
    if (change != 0) Kokkos::atomic_max(&all.counts->scale_change, static_cast<std::uint32_t>(change));
  }

 private:
  KOKKOS_FORCEINLINE_FUNCTION std::int64_t across() const { return (all.cols + kWidth - 1) / kWidth; }
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
  template <class AnyMember, class Rows>
  KOKKOS_FORCEINLINE_FUNCTION void find_columns(const AnyMember& team, const Rows& in, Scratch& scratch) const {
    const int rank = team.team_rank(), column = rank % kAcross * kN;
    std::int32_t amax[kN];
    if constexpr (kOfBf16<In>) {
      SHARD8_UNROLL
      for (int k = 0; k < kN / 2; ++k) {
        std::uint32_t pair = 0;
        SHARD8_UNROLL
        for (int r = 0; r < kRows; ++r) pair = larger_pair(pair, in[r].pack[0].word[k]);
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
  template <class AnyMember>
  KOKKOS_FORCEINLINE_FUNCTION Result compute_columns(const AnyMember& team, std::int64_t panel,
                                                     Scratch& scratch) const {
    constexpr int kOf = kWarps / kDown;  // warps that share a block
    const std::int64_t down = panel / across(), col0 = (panel - down * across()) * kWidth;
    std::int32_t change = 0;
    bool odd = false;
    for (int i = team.team_rank(); i < (kSquare ? kThreads : kDown * kWidth); i += kThreads) {
      const int block = i / kWidth, column = i % kWidth;
      std::int32_t amax = 0;
      for (int warp = block * kOf; warp < (block + 1) * kOf && warp < kWarps; ++warp) {
        const std::int32_t one = scratch.amax[warp][column];
        amax = one > amax ? one : amax;
      }
      if constexpr (kSquare) amax = team_largest(team, amax);
      odd |= amax >= static_cast<std::int32_t>(kInfinityBits);
      const float scale = Rule::scale(amax, all.power_of_2);
      if (block < kDown) scratch.scale[block][column] = scale;
      const std::int64_t block_row = down * kDown + block;
      if (kSquare ? i == 0 : col0 + column < all.cols && block_row * kBlock < all.rows) {
        const std::int64_t at = kSquare ? panel : block_row * all.cols + col0 + column;
        const std::int32_t one = Wide::write_scale(all.column.scale_inv[at], Rule::inverse(amax, scale), all.compares);
        change = one > change ? one : change;
      }
    }
    return {change, any_of_team(team, odd)};
  }
};

/// `transposed`: the columnwise cast is stored as (cols, rows); only for blocks of 128.
template <class Rule, Blocks kBlocks, class Source>
void quantize_panels(const Exec& exec, const Quantized<Rule>& row, const Quantized<Rule>& column, bool transposed,
                     const Source& x, std::int64_t rows, std::int64_t cols, const CastOptions& options) {
  const PanelQuantizer<Rule, kBlocks, Source> quantizer{row,
                                                        column,
                                                        x,
                                                        rows,
                                                        cols,
                                                        options.power_of_2,
                                                        options.counts,
                                                        options.counts != nullptr && options.compare_scales,
                                                        transposed};
  constexpr auto kLabel = "shard8::kernels::quantize_blocks";
  if constexpr (!kHostExec) {
    using Fast = PanelInRegisters<Rule, kBlocks, Source>;
    const auto launch = [&](const auto& fast) {
      using Panels = std::remove_cvref_t<decltype(fast)>;
      for_rows_with<typename Panels::Scratch, typename Panels::Bounds>(exec, kLabel, fast.panels(), fast,
                                                                       Panels::kThreads);
    };
    const bool blocks_fit = kBlocks != Blocks::square || cols % Fast::kWidth == 0;
    const bool fits = blocks_fit && packs_fit<Fast::kN>(cols, x.x, row.data, column.data);
    if (fits && !transposed) return launch(Fast{quantizer});
    if constexpr (Fast::kColumn && !Fast::kSquare && Rule::kBlock == Fast::kWidth) {
      // A column of the panel is written in chunks of 16 bytes.
      if (fits && packs_fit<16>(16, column.data))
        return launch(PanelInRegisters<Rule, kBlocks, Source, true>{quantizer});
    }
  }
  for_rows_with<PanelScratch>(exec, kLabel, quantizer.panels(), quantizer);
}

}  // namespace shard8::kernels
