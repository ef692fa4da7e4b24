// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/kokkos/panel_cast.hpp"

/// A kernel for devices that computes a result in bf16 and casts it with block scales, in one pass over panels. The
/// kernel's template argument Formula, the type that computes elements, has the members that cast_tiles.hpp lists.
namespace shard8::kernels {

using PanelLanes = Packed<8, 1>::Lanes<tensor::BFloat16>;

/// No forward result is recomputed.
struct NoRecomputedPanels {
  static constexpr bool kPresent = false;
};
/// For a backward kernel that also writes a recomputed forward result, Formula::recompute(w, in): its columnwise cast,
/// transposed.
struct RecomputedPanels {
  static constexpr bool kPresent = true;
  PanelCast<WideBlocks<tensor::E4M3>, Blocks::column, PanelLanes, true> cast;
  CastCounts* counts;
};

/// Computes a panel of each part of a result, and casts it. A second team recomputes the panel's forward result, so
/// that a thread holds no more than kParts panels in registers. The inputs that both teams read are then in the cache.
template <class Cast, class Formula, class Recomputed>
struct FormulaPanels {
  static constexpr int kParts = Formula::kParts, kTeams = Recomputed::kPresent ? 2 : 1;
  using Width = Packed<8, 1>;
  using Scratch = typename Cast::Scratch;
  using Bounds = Kokkos::LaunchBounds<Cast::kThreads, kParts == 1 ? 3 : 2>;

  Cast cast;  ///< of all parts: its columns are those of part 0, then those of part 1
  Formula formula;
  CastCounts* counts;
  Recomputed recomputed;
  std::int64_t cols;  ///< of one part

  std::int64_t teams() const { return (cast.rows + Cast::kWidth - 1) / Cast::kWidth * (cols / Cast::kWidth) * kTeams; }

  template <class AnyMember>
  KOKKOS_INLINE_FUNCTION void operator()(const AnyMember& team, std::int64_t index, Scratch& scratch) const {
    const std::int64_t across = cols / Cast::kWidth, panel = index / kTeams;
    const std::int64_t down = panel / across, col0 = (panel - down * across) * Cast::kWidth;
    if constexpr (Recomputed::kPresent) {
      if (index % kTeams != 0) return recompute(team, down, col0, scratch);
    }
    PanelLanes result[kParts][Cast::kRows];
    for_each_row(team, down, col0, [&](int r, const Formula& of, const auto& in) {
      const auto parts = of.compute(Width{0}, in);
      SHARD8_UNROLL
      for (int p = 0; p < kParts; ++p) result[p][r] = rounded<tensor::BFloat16>(parts.part[p]);
    });
    CastStats stats;
    SHARD8_UNROLL
    for (int p = 0; p < kParts; ++p) stats += cast.cast(team, down, p * cols + col0, result[p], scratch).stats;
    CastTotals{nullptr, counts}.add(team, stats);
  }

 private:
  /// Calls f(r, formula of the row, inputs) for each row r of a thread. Rows below the matrix repeat its last row;
  /// their casts are not written.
  template <class AnyMember, class F>
  KOKKOS_FORCEINLINE_FUNCTION void for_each_row(const AnyMember& team, std::int64_t down, std::int64_t col0,
                                                const F& f) const {
    const auto at = cast.place(team.team_rank(), down, col0);
    SHARD8_UNROLL
    for (int r = 0; r < Cast::kRows; ++r) {
      const std::int64_t row = at.row0 + r * Cast::kStep;
      const Formula of = formula.row(row < cast.rows ? row : cast.rows - 1);
      f(r, of, of.load(Width{0}, at.col));
      if (kParts > 1 && r % 2 == 1) warp_barrier();  // loads of later rows begin later: fewer registers are spilled
    }
  }
  template <class AnyMember>
  KOKKOS_FORCEINLINE_FUNCTION void recompute(const AnyMember& team, std::int64_t down, std::int64_t col0,
                                             Scratch& scratch) const {
    PanelLanes result[Cast::kRows];
    for_each_row(team, down, col0, [&](int r, const Formula& of, const auto& in) {
      result[r] = rounded<tensor::BFloat16>(of.recompute(Width{0}, in));
    });
    CastTotals{nullptr, recomputed.counts}.add(team, recomputed.cast.cast(team, down, col0, result, scratch).stats);
  }
};

/// The pointers of a cast; null if it is empty.
template <class Rule>
Quantized<Rule> quantized_of(const tensor::Operand& cast) {
  if (cast.empty()) return {};
  return {cast.data.as<typename Rule::Format>(), cast.scale_inv.as<typename Rule::Inverse>()};
}

/// Whether the casts of a result with parts of `cols` columns can be written by panels.
inline bool panels_fit(const BlockCasts& out, std::int64_t cols) {
  return !out.empty() && cols % 128 == 0 && packs_fit<16>(16, out.rowwise.data.data, out.columnwise.data.data);
}

template <class Rule, Blocks kBlocks, bool kTransposed, class Formula, class Recomputed>
void launch_panels(const Exec& exec, const char* label, const Outputs& out, const Formula& formula, std::int64_t rows,
                   std::int64_t cols, const Recomputed& recomputed) {
  using Casts = PanelCast<Rule, kBlocks, PanelLanes, kTransposed>;
  using Panels = FormulaPanels<Casts, Formula, Recomputed>;
  const Casts cast{quantized_of<Rule>(out.blocks.rowwise),
                   quantized_of<Rule>(out.blocks.columnwise),
                   rows,
                   Formula::kParts * cols,
                   out.blocks.power_of_2,
                   false};
  const Panels panels{cast, formula, out.counts, recomputed, cols};
  for_rows_with<typename Panels::Scratch, typename Panels::Bounds>(exec, label, panels.teams(), panels,
                                                                   Casts::kThreads);
}

/// Writes the casts with block scales of a result in e4m3 with parts of (rows, cols), and returns true. Returns false
/// and writes nothing on hosts, where `out` requests no such casts, where the inputs are not bf16, and where panels do
/// not fit. `fits`: whether the inputs can be read by packs.
template <class Formula>
bool write_panels([[maybe_unused]] const Exec& exec, [[maybe_unused]] const char* label,
                  [[maybe_unused]] const Outputs& out, [[maybe_unused]] const Formula& formula,
                  [[maybe_unused]] std::int64_t rows, [[maybe_unused]] std::int64_t cols, [[maybe_unused]] bool fits) {
  if constexpr (!kHostExec && std::is_same_v<typename Formula::Type, tensor::BFloat16>) {
    const BlockCasts& casts = out.blocks;
    if (!fits || rows == 0 || !panels_fit(casts, cols) ||
        (casts.rowwise.empty() ? casts.columnwise : casts.rowwise).data.dtype != tensor::DType::e4m3)
      return false;
    using Rule = WideBlocks<tensor::E4M3>;
    const auto launch = [&]<Blocks kBlocks, bool kTransposed>() {
      launch_panels<Rule, kBlocks, kTransposed>(exec, label, out, formula, rows, cols, NoRecomputedPanels{});
      return true;
    };
    if (casts.columnwise.empty()) return launch.template operator()<Blocks::row, false>();
    if (!casts.columnwise.transposed)
      return casts.rowwise.empty() && launch.template operator()<Blocks::column, false>();
    return casts.rowwise.empty() ? launch.template operator()<Blocks::column, true>()
                                 : launch.template operator()<Blocks::both, true>();
  }
  return false;
}

/// As write_panels, for the two-part gradient of an activation: both casts in e4m3 or e5m2, the columnwise one
/// transposed. Also writes the transposed columnwise cast in e4m3 of the result that Formula::recompute gives, unless
/// `recomputed` requests nothing; returns false if `recomputed` requests anything else.
template <class Formula>
bool write_gradient_panels([[maybe_unused]] const Exec& exec, [[maybe_unused]] const char* label,
                           [[maybe_unused]] const Outputs& out, [[maybe_unused]] const Formula& formula,
                           [[maybe_unused]] std::int64_t rows, [[maybe_unused]] std::int64_t cols,
                           [[maybe_unused]] bool fits, [[maybe_unused]] const Outputs& recomputed) {
  if constexpr (!kHostExec && std::is_same_v<typename Formula::Type, tensor::BFloat16>) {
    const BlockCasts &casts = out.blocks, &again = recomputed.blocks;
    if (!fits || rows == 0 || !panels_fit(casts, cols) || casts.rowwise.empty() || !casts.columnwise.transposed)
      return false;
    const bool recomputes = !asks_for_nothing(recomputed);
    if (recomputes && (!panels_fit(again, cols) || !again.rowwise.empty() || !again.columnwise.transposed ||
                       again.columnwise.data.dtype != tensor::DType::e4m3))
      return false;
    dispatch_float8(casts.rowwise.data.dtype, label, [&]<class Q>(std::type_identity<Q>) {
      const auto launch = [&](const auto& of) {
        launch_panels<WideBlocks<Q>, Blocks::both, true>(exec, label, out, formula, rows, cols, of);
      };
      if (!recomputes) return launch(NoRecomputedPanels{});
      launch(RecomputedPanels{
          {{}, quantized_of<WideBlocks<tensor::E4M3>>(again.columnwise), rows, cols, again.power_of_2, false},
          recomputed.counts});
    });
    return true;
  }
  return false;
}

}  // namespace shard8::kernels
