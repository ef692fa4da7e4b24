// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "kernels/kokkos/scaling.hpp"

namespace shard8::kernels {

/// Which elements share a scale: stretches of a row, stretches of a column, both (two casts), or a square block.
enum class Blocks { row, column, both, square };

/// Pointers to a quantized matrix in memory of the execution space.
template <class Rule>
struct Quantized {
  typename Rule::Format* data = nullptr;
  typename Rule::Inverse* scale_inv = nullptr;
};

/// The amaxes and scales of a panel's blocks. Blocks along rows are stored as (row, block), kPerRow blocks a row.
struct PanelScratch {
  static constexpr std::int64_t kWidth = 128;
  alignas(64) std::int32_t row_amax[kWidth];
  alignas(64) std::int32_t column_amax[kWidth];
  alignas(64) float row_scale[kWidth];
  alignas(64) float column_scale[kWidth];
  alignas(64) float wide[kWidth];  ///< the elements of one row as fp32
};

/// Quantizes x (rows, cols) in one pass over panels of kBlock rows and kWidth columns: first the amaxes of the panel's
/// blocks, then their scales, then the casts, while the panel is in the cache.
template <class Rule, Blocks kBlocks, class Source>
struct PanelQuantizer {
  using Format = typename Rule::Format;
  using Inverse = typename Rule::Inverse;
  static constexpr std::int64_t kBlock = Rule::kBlock, kWidth = PanelScratch::kWidth, kPerRow = kWidth / kBlock;
  static constexpr bool kRow = kBlocks == Blocks::row || kBlocks == Blocks::both;
  static constexpr bool kColumn = kBlocks != Blocks::row;
  static_assert(kBlock * kPerRow == kWidth);

  Quantized<Rule> row, column;  ///< square blocks use `column`
  Source x;
  std::int64_t rows, cols;
  bool power_of_2;
  CastCounts* counts;
  bool compares;
  bool transposed;             ///< the columnwise cast is stored as (cols, rows)
  std::int64_t stride = rows;  ///< from one row of that cast to the next

  /// The panels of the first n rows.
  KOKKOS_FORCEINLINE_FUNCTION PanelQuantizer until(std::int64_t n) const {
    PanelQuantizer panels = *this;
    panels.rows = n;
    return panels;
  }
  KOKKOS_FORCEINLINE_FUNCTION std::int64_t count() const {
    return (rows + kBlock - 1) / kBlock * ((cols + kWidth - 1) / kWidth);
  }

  KOKKOS_INLINE_FUNCTION void operator()(const Team& team, std::int64_t panel, PanelScratch& scratch) const {
    const std::int64_t across = (cols + kWidth - 1) / kWidth;
    const std::int64_t row0 = panel / across * kBlock, col0 = panel % across * kWidth;
    const Panel at{row0, col0, rows - row0 < kBlock ? rows - row0 : kBlock,
                   cols - col0 < kWidth ? cols - col0 : kWidth};
    find_amaxes(team, at, scratch);
    row_barrier(team);
    const std::int32_t change = make_scales(team, at, scratch);
    row_barrier(team);
    CastTotals{nullptr, counts}.add(team, cast(team, at, scratch));
    once(team, [=, to = counts] {
      if (change != 0) Kokkos::atomic_max(&to->scale_change, static_cast<std::uint32_t>(change));
    });
    row_barrier(team);  // before the next panel overwrites the scratch
  }

 private:
  struct Panel {
    std::int64_t row0, col0, rows, cols;
  };

  KOKKOS_INLINE_FUNCTION void find_amaxes(const Team& team, const Panel& at, PanelScratch& scratch) const {
    std::int32_t* const columns = scratch.column_amax;
    row_for(team, kWidth, [=](std::int64_t c) { columns[c] = 0; });
    for (std::int64_t r = 0; r < at.rows; ++r) {
      const auto in = x.from((at.row0 + r) * cols + at.col0);
      if constexpr (!kRow) {
        row_for(team, at.cols, [=](std::int64_t c) { raise(columns[c], magnitude(in.load(Single{}, c)[0])); });
      } else {
        for (std::int64_t b = 0; b < at.cols / kBlock; ++b) {
          const auto part = in.from(b * kBlock);
          std::int32_t* const below = columns + b * kBlock;
          const std::int32_t amax = row_largest(team, kBlock, [=](std::int64_t c) {
            const std::int32_t bits = magnitude(part.load(Single{}, c)[0]);
            if constexpr (kColumn) raise(below[c], bits);
            return bits;
          });
          std::int32_t* const to = scratch.row_amax + r * kPerRow + b;
          once(team, [=] { *to = amax; });
        }
      }
    }
    if constexpr (kBlocks == Blocks::square) {
      row_barrier(team);
      const std::int32_t amax = row_largest(team, kWidth, [=](std::int64_t c) { return columns[c]; });
      row_barrier(team);
      row_for(team, kWidth, [=](std::int64_t c) { columns[c] = amax; });
    }
  }

  /// Writes the scales of all blocks. Returns the largest change of an inverse scale.
  KOKKOS_INLINE_FUNCTION std::int32_t make_scales(const Team& team, const Panel& at, PanelScratch& scratch) const {
    std::int32_t change = 0;
    if constexpr (kRow) {
      const std::int64_t across = cols / kBlock, blocks = at.cols / kBlock;
      Inverse* const inverses = row.scale_inv + at.row0 * across + at.col0 / kBlock;
      const bool compare = compares, floored = power_of_2;
      const std::int32_t* const amaxes = scratch.row_amax;
      float* const scales = scratch.row_scale;
      change = row_largest(team, at.rows * kPerRow, [=](std::int64_t i) {
        const std::int64_t r = i / kPerRow, b = i % kPerRow;
        if (b >= blocks) return 0;
        scales[i] = Rule::scale(amaxes[i], floored);
        return write_block_scale(inverses[r * across + b], Rule::inverse(amaxes[i], scales[i]), compare);
      });
    }
    if constexpr (kColumn) {
      const bool square = kBlocks == Blocks::square, compare = compares, floored = power_of_2;
      const std::int64_t block_row = at.row0 / kBlock;
      Inverse* const inverses =
          column.scale_inv + (square ? block_row * (cols / kBlock) + at.col0 / kBlock : block_row * cols + at.col0);
      const std::int32_t* const amaxes = scratch.column_amax;
      float* const scales = scratch.column_scale;
      row_for(team, at.cols, [=](std::int64_t c) { scales[c] = Rule::scale(amaxes[c], floored); });
      row_barrier(team);
      const std::int32_t other = row_largest(team, square ? 1 : at.cols, [=](std::int64_t c) {
        return write_block_scale(inverses[c], Rule::inverse(amaxes[c], scales[c]), compare);
      });
      change = other > change ? other : change;
    }
    return change;
  }

  KOKKOS_INLINE_FUNCTION CastStats cast(const Team& team, const Panel& at, PanelScratch& scratch) const {
    CastStats total;
    const float* const columns = scratch.column_scale;
    float* const wide = scratch.wide;
    for (std::int64_t r = 0; r < at.rows; ++r) {
      const std::int64_t first = (at.row0 + r) * cols + at.col0;
      const auto in = x.from(first);
      Format* const row_out = kRow ? row.data + first : nullptr;
      Format* const column_out =
          kColumn ? column.data + (transposed ? at.col0 * stride + at.row0 + r : first) : nullptr;
      if constexpr (kRow) {
        row_barrier(team);
        for (std::int64_t b = 0; b < at.cols / kBlock; ++b) {
          const float scale = scratch.row_scale[r * kPerRow + b];
          float* const part = wide + b * kBlock;
          row_for(team, kBlock, [=](std::int64_t c) { part[c] = scale; });
        }
        row_barrier(team);
      }
      // `step`: between neighbours of a row in the columnwise cast.
      const auto cast_row = [&](auto step) {
        return row_stats<1>(team, at.cols, false, [=](auto, std::int64_t c) {
          const float value = in.load(Single{}, c)[0];
          CastStats stats;
          if constexpr (kRow) stats += cast_element(row_out[c], value, wide[c]);
          if constexpr (kColumn) stats += cast_element(column_out[c * step], value, columns[c]);
          return stats;
        });
      };
      if (kColumn && transposed)
        total += cast_row(stride);
      else
        total += cast_row(std::integral_constant<std::int64_t, 1>{});
    }
    return total;
  }

  KOKKOS_INLINE_FUNCTION static void raise(std::int32_t& largest, std::int32_t bits) {
    largest = bits > largest ? bits : largest;
  }
};

}  // namespace shard8::kernels
