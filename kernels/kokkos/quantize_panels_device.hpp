// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "kernels/kokkos/panel_cast.hpp"
#include "kernels/kokkos/scaling.hpp"

namespace shard8::kernels {

/// As PanelQuantizer, on a device where packs fit: a team reads the elements of a panel once.
template <class Rule, Blocks kBlocks, class Source, bool kTransposed = false>
struct PanelInRegisters {
  static constexpr int kN = kPack<typename Source::Type>;
  using Width = Packed<kN, 1>;
  using In = decltype(std::declval<Source>().load(Width{0}, 0));
  using Cast = PanelCast<Rule, kBlocks, In, kTransposed>;
  using Scratch = typename Cast::Scratch;
  /// How many teams run on a multiprocessor at a time, which bounds the registers of a thread: most for square blocks
  /// of bf16, whose threads hold half the bytes and no scales of columns; more for elements read as 2 bytes than as 4.
  static constexpr int kTeams = Cast::kSquare && kOfBf16<In> ? 4 : sizeof(typename Source::Type) == 2 ? 3 : 2;
  using Bounds = Kokkos::LaunchBounds<Cast::kThreads, kTeams>;

  Cast cast;
  Source x;
  CastCounts* counts;

  /// A copy of this functor that casts the first n rows alone.
  KOKKOS_FORCEINLINE_FUNCTION PanelInRegisters until(std::int64_t n) const {
    PanelInRegisters panels = *this;
    panels.cast.rows = n;
    return panels;
  }
  KOKKOS_FORCEINLINE_FUNCTION std::int64_t count() const {
    return (cast.rows + Cast::kWidth - 1) / Cast::kWidth * across();
  }

  template <class AnyMember>
  KOKKOS_INLINE_FUNCTION void operator()(const AnyMember& team, std::int64_t panel, Scratch& scratch) const {
    const std::int64_t down = panel / across(), col0 = (panel - down * across()) * Cast::kWidth;
    const auto at = cast.place(team.team_rank(), down, col0);
    In in[Cast::kRows];
    SHARD8_UNROLL
    for (int r = 0; r < Cast::kRows; ++r) {
      const std::int64_t row = at.row0 + r * Cast::kStep;
      in[r] = {};
      if (at.inside && row < cast.rows) in[r] = x.load(Width{0}, row * cast.cols + at.col);
    }
    const auto found = cast.cast(team, down, col0, in, scratch);
    CastTotals{nullptr, counts}.add(team, found.stats);
    if (found.change != 0) Kokkos::atomic_max(&counts->scale_change, static_cast<std::uint32_t>(found.change));
  }

 private:
  KOKKOS_FORCEINLINE_FUNCTION std::int64_t across() const { return (cast.cols + Cast::kWidth - 1) / Cast::kWidth; }
};

/// `transposed`: the columnwise cast is stored as (cols, rows); only for blocks of 128.
template <class Rule, Blocks kBlocks, class Source>
void quantize_panels(const Exec& exec, const Quantized<Rule>& row, const Quantized<Rule>& column, bool transposed,
                     const Source& x, std::int64_t rows, std::int64_t cols, const CastOptions& options,
                     const RowEnd& end) {
  constexpr auto kLabel = "shard8::kernels::quantize_blocks";
  const bool compares = options.counts != nullptr && options.compare_scales;
  if constexpr (!kHostExec) {
    const auto launch = [&]<bool kTransposed>(std::bool_constant<kTransposed>) {
      using Panels = PanelInRegisters<Rule, kBlocks, Source, kTransposed>;
      const Panels panels{{row, column, rows, cols, options.power_of_2, compares}, x, options.counts};
      const auto launch_loop = [&](const auto& loop) {
        for_rows_with<typename Panels::Scratch, typename Panels::Bounds>(exec, kLabel, panels.count(), loop,
                                                                         Panels::Cast::kThreads);
      };
      if (end.empty()) return launch_loop(panels);
      launch_loop(TilesUntilEnd<Panels, false>{panels, end});
    };
    using Fast = typename PanelInRegisters<Rule, kBlocks, Source>::Cast;
    const bool blocks_fit = kBlocks != Blocks::square || cols % Fast::kWidth == 0;
    const bool fits = blocks_fit && packs_fit<Fast::kN>(cols, x.x, row.data, column.data);
    if (fits && !transposed) return launch(std::false_type{});
    if constexpr (Fast::kColumn && !Fast::kSquare && Rule::kBlock == Fast::kWidth) {
      // A column of the panel is written in chunks of 16 bytes.
      if (fits && packs_fit<16>(16, column.data)) return launch(std::true_type{});
    }
  }
  using Panels = PanelQuantizer<Rule, kBlocks, Source>;
  const Panels panels{row, column, x, rows, cols, options.power_of_2, options.counts, compares, transposed};
  if (end.empty())
    for_rows_with<PanelScratch>(exec, kLabel, panels.count(), panels);
  else
    for_rows_with<PanelScratch>(exec, kLabel, panels.count(), TilesUntilEnd<Panels, false>{panels, end});
}

}  // namespace shard8::kernels
