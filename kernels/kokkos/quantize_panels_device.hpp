// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/kokkos/quantize_panels.hpp"

namespace shard8::kernels {

/// As PanelQuantizer, where packs fit: a team of 256 threads holds a panel of kBlock rows and 128
/// columns in registers, so that it is read once. kAcross neighbouring threads share a row.
template <class Rule, Blocks kBlocks, class Source>
struct PanelInRegisters {
  using Inverse = typename Rule::Inverse;
  using Wide = PanelQuantizer<Rule, kBlocks, Source>;
  static constexpr int kN = kPack<typename Source::Type>, kThreads = 256, kWidth = 128,
                       kBlock = static_cast<int>(Rule::kBlock);
  static constexpr int kAcross = kWidth / kN, kGroups = kThreads / kAcross, kRows = kBlock / kGroups;
  static constexpr int kShare = kBlock / kN;  ///< threads with a block along rows
  static constexpr bool kRow = Wide::kRow, kColumn = Wide::kColumn, kSquare = kBlocks == Blocks::square;
  static_assert(kShare <= 32 && kAcross <= 32 && kRows >= 1);

  struct Scratch {
    std::int32_t amax[kThreads / 32][kWidth];
    alignas(16) float scale[kWidth];
  };

  Wide all;

  template <class AnyMember>
  KOKKOS_INLINE_FUNCTION void operator()(const AnyMember& team, std::int64_t panel, Scratch& scratch) const {
    const std::int64_t across = (all.cols + kWidth - 1) / kWidth, down = panel / across;
    const int rank = team.team_rank(), group = rank / kAcross, column = rank % kAcross * kN;
    const std::int64_t row0 = down * kBlock + group, col = (panel - down * across) * kWidth + column;
    const bool inside = col < all.cols;
    const Packed<kN, 1> w{0};
    decltype(all.x.load(w, 0)) in[kRows];
    SHARD8_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const std::int64_t row = row0 + r * kGroups;
      in[r] = {};
      if (inside && row < all.rows) in[r] = all.x.load(w, row * all.cols + col);
    }
    std::int32_t change = 0;
    CastStats stats;
    if constexpr (kColumn) find_columns(team, in, scratch);
    if constexpr (kColumn) change = make_columns(team, panel, scratch);
    SHARD8_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const std::int64_t row = row0 + r * kGroups, at = row * all.cols + col;
      const bool here = inside && row < all.rows;
      float values[kN];
      SHARD8_UNROLL
      for (int k = 0; k < kN; ++k) values[k] = in[r][k];
      if constexpr (kRow) {
        std::int32_t amax = larger_magnitude(w, in[r], 0);
        for (int step = kShare / 2; step > 0; step /= 2) {
          amax = larger_across(amax, step);
        }
        const float scale = Rule::scale(amax, all.power_of_2);
        if (here) {
          if (rank % kShare == 0) {
            Inverse& place = all.row.scale_inv[row * (all.cols / kBlock) + col / kBlock];
            const std::int32_t one = Wide::leave(place, Rule::inverse(amax, scale), all.compares);
            change = one > change ? one : change;
          }
          stats += cast_to(all.row.data + at, values, scale);
        }
      }
      if constexpr (kColumn) {
        if (here) stats += cast_columns(all.column.data + at, values, scratch.scale + column);
      }
    }
    CastTotals{nullptr, all.counts}.add(team, stats);
    if (change != 0) Kokkos::atomic_max(&all.counts->scale_change, static_cast<std::uint32_t>(change));
  }

 private:
  KOKKOS_FORCEINLINE_FUNCTION static CastStats cast_to(tensor::E4M3* to, const float (&values)[kN], float scale) {
    Words<kN> codes;
    const CastStats stats = cast_pack<tensor::E4M3>(codes, values, scale);
    store_words(to, codes);
    return stats;
  }
  /// Every column by its own scale.
  KOKKOS_FORCEINLINE_FUNCTION static CastStats cast_columns(tensor::E4M3* to, const float (&values)[kN],
                                                            const float* scales) {
    const auto here = Packed<kN, 1>{0}.load(scales, 0);
    Words<kN> codes;
    const CastStats stats = cast_pack<tensor::E4M3>(codes, values, here);
    store_words(to, codes);
    return stats;
  }

  /// The amaxes of the panel's columns, of every warp.
  template <class AnyMember, class Rows>
  KOKKOS_FORCEINLINE_FUNCTION void find_columns(const AnyMember& team, const Rows& in, Scratch& scratch) const {
    const int rank = team.team_rank(), column = rank % kAcross * kN;
    std::int32_t amax[kN];
    SHARD8_UNROLL
    for (int k = 0; k < kN; ++k) {
      amax[k] = 0;
      SHARD8_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const std::int32_t one = magnitude(in[r][k]);
        amax[k] = one > amax[k] ? one : amax[k];
      }
      for (int step = 16; step >= kAcross; step /= 2) {
        amax[k] = larger_across(amax[k], step);
      }
    }
    if (rank % 32 < kAcross) {
      SHARD8_UNROLL
      for (int k = 0; k < kN; ++k) scratch.amax[rank / 32][column + k] = amax[k];
    }
    team.team_barrier();
  }

  /// Their scales; the largest change of an inverse that this thread wrote.
  template <class AnyMember>
  KOKKOS_FORCEINLINE_FUNCTION std::int32_t make_columns(const AnyMember& team, std::int64_t panel,
                                                        Scratch& scratch) const {
    const std::int64_t across = (all.cols + kWidth - 1) / kWidth, down = panel / across;
    const int rank = team.team_rank();
    std::int32_t change = 0, amax = 0;
    if (rank < kWidth) {
      for (int warp = 0; warp < kThreads / 32; ++warp) {
        const std::int32_t one = scratch.amax[warp][rank];
        amax = one > amax ? one : amax;
      }
    }
    if constexpr (kSquare) amax = team_largest(team, amax);
    const float scale = Rule::scale(amax, all.power_of_2);
    if (rank < kWidth) scratch.scale[rank] = scale;
    const std::int64_t col = (panel - down * across) * kWidth + rank;
    if (kSquare ? rank == 0 : rank < kWidth && col < all.cols) {
      const std::int64_t at = kSquare ? panel : down * all.cols + col;
      change = Wide::leave(all.column.scale_inv[at], Rule::inverse(amax, scale), all.compares);
    }
    team.team_barrier();
    return change;
  }
};

template <class Rule, Blocks kBlocks, class Source>
void quantize_panels(const Exec& exec, const Quantized<typename Rule::Inverse>& row,
                     const Quantized<typename Rule::Inverse>& column, const Source& x, std::int64_t rows,
                     std::int64_t cols, const CastOptions& options) {
  const PanelQuantizer<Rule, kBlocks, Source> quantizer{row,
                                                        column,
                                                        x,
                                                        rows,
                                                        cols,
                                                        options.power_of_2,
                                                        options.counts,
                                                        options.counts != nullptr && options.compare_scales};
  constexpr auto kLabel = "shard8::kernels::quantize_blocks";
  if constexpr (!kHostExec) {
    using Fast = PanelInRegisters<Rule, kBlocks, Source>;
    const bool blocks_fit = kBlocks != Blocks::square || cols % Fast::kWidth == 0;
    if (blocks_fit && packs_fit<Fast::kN>(cols, x.x, row.data, column.data)) {
      for_rows_with<typename Fast::Scratch>(exec, kLabel, quantizer.panels(), Fast{quantizer}, Fast::kThreads);
      return;
    }
  }
  for_rows_with<PanelScratch>(exec, kLabel, quantizer.panels(), quantizer);
}

}  // namespace shard8::kernels
