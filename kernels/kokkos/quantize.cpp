// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <type_traits>

#include "kernels/check/arguments.hpp"
#include "kernels/kokkos/cast.hpp"
#include "kernels/kokkos/cast_tiles.hpp"
#include "kernels/kokkos/panel_cast.hpp"
#include "kernels/kokkos/portable.hpp"
#include "kernels/kokkos/scaling.hpp"
#include "kernels/kokkos/transpose_tile.hpp"
#include "kernels/quantize.hpp"

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

namespace {

template <class Q, class Source>
void quantize_flat(const Exec& exec, Q* out, float* scale_inv, const CastTotals& totals, const Source& x,
                   const float* scale, std::int64_t count, const RowEnd& end) {
  constexpr int kN = kPack<typename Source::Type>, kPacks = 32 / kN, kTeams = kN == 8 ? 4 : 3;
  const bool fits = packs_fit<kN>(kN, x.x, out);
  for_stretches_until<Kokkos::LaunchBounds<kTeamThreads, kTeams>, 16384>(
      exec, "shard8::kernels::quantize", count,
      SHARD8_LAMBDA(const Team& team, std::int64_t first, std::int64_t n) {
        const float factor = *scale;
        const CastTotals running = totals.seen(team);
        const auto in = x.from(first);
        Q* const to = out + first;
        const auto stats = row_stats<kN, kPacks>(
            team, n, fits, [=](auto w, std::int64_t i) { return cast_lanes(w, to, i, in.load(w, i), factor); });
        running.add(team, stats);
        once(team, [=] {
          if (first == 0) *scale_inv = 1.0f / factor;
        });
      },
      end);
}

/// Casts a tile and transposes its cast, on a host thread.
template <class Q, class Source>
struct QuantizeTiles {
  Q *out, *transposed;
  float* scale_inv;
  CastTotals totals;
  Source x;
  const float* scale;
  std::int64_t rows, cols;
  std::int64_t stride = rows;  ///< from one row of `transposed` to the next

  /// The tiles of the first n rows.
  QuantizeTiles until(std::int64_t n) const {
    QuantizeTiles tiles = *this;
    tiles.rows = n;
    return tiles;
  }
  /// At least one: an empty matrix also has an inverse scale.
  std::int64_t count() const { return std::max<std::int64_t>(1, ByteTile::count(rows, cols)); }

  void operator()(const HostTeam& team, std::int64_t index) const {
    const QuantizeTiles at = *this;  // a copy: the compiler knows that stores of codes do not change it
    const float factor = *at.scale;
    CastStats stats;
    if (at.rows * at.cols != 0) {
      const auto tile = ByteTile::of(index, at.rows, at.cols);
      for (std::int64_t r = tile.row0; r < tile.row0 + tile.rows; ++r) {
        const auto in = at.x.from(r * at.cols + tile.col0);
        Q* const to = at.out + r * at.cols + tile.col0;
        stats += row_stats<1>(team, tile.cols, false,
                              [=](auto w, std::int64_t c) { return cast_lanes(w, to, c, in.load(w, c), factor); });
      }
      transpose_tile(team, bytes_of(at.transposed), bytes_of(at.out), at.stride, at.cols, tile);
    }
    at.totals.add(stats);
    if (index == 0) *at.scale_inv = 1.0f / factor;
  }

 private:
  static std::uint8_t* bytes_of(Q* codes) { return reinterpret_cast<std::uint8_t*>(codes); }
};

/// The Formula of a cast without computation: the result is the source.
template <class Source>
struct Copied {
  using Type = typename Source::Type;
  static constexpr int kInputs = 1, kParts = 1;
  Source x;
  std::int64_t cols;

  KOKKOS_FORCEINLINE_FUNCTION Copied row(std::int64_t r) const { return {x.from(r * cols), cols}; }
  template <class W>
  KOKKOS_FORCEINLINE_FUNCTION auto load(const W& w, std::int64_t i) const {
    return x.load(w, i);
  }
  template <class W, class Lanes>
  KOKKOS_FORCEINLINE_FUNCTION auto compute(const W&, const Lanes& in) const {
    return Parts<1, Lanes>{{in}};
  }
};

/// Writes the cast and the transposed cast in one pass. Returns whether it did.
template <class Q, class Source>
bool quantize_tiles(const Exec& exec, Q* out, Q* transposed, float* scale_inv, const CastTotals& totals,
                    const Source& x, const float* scale, std::int64_t rows, std::int64_t cols,
                    [[maybe_unused]] bool transposed_alone, const RowEnd& end) {
  constexpr auto kLabel = "shard8::kernels::quantize_transpose";
  if constexpr (kHostExec) {
    const QuantizeTiles<Q, Source> tiles{out, transposed, scale_inv, totals, x, scale, rows, cols};
    if (end.empty())
      for_rows(exec, kLabel, tiles.count(), tiles);
    else
      for_rows(exec, kLabel, tiles.count(), TilesUntilEnd<QuantizeTiles<Q, Source>, true>{tiles, end});
    return true;
  } else {
    using T = typename Source::Type;
    using Types = OutputTypes<T, Q, false, true>;
    const OutputWriter<Types> writer{nullptr, out, scale, scale_inv, totals, transposed, transposed_alone};
    const bool fits = writer.template fits<kPack<T>>(cols, x.x);
    if (rows * cols == 0) return false;
    if (end.empty()) return write_tiles(exec, kLabel, writer, Copied<Source>{x, cols}, rows, cols, fits);
    if (!fits || !can_transpose(transposed, rows)) return false;
    using Tiles = CastTiles<Types, Copied<Source>>;
    const Tiles tiles{writer, {x, cols}, rows, cols};
    for_rows_with<typename Tiles::Scratch, typename Tiles::Bounds>(exec, kLabel, tiles.count(),
                                                                   TilesUntilEnd<Tiles, true>{tiles, end});
    return true;
  }
}

using tensor::Scaling;
constexpr auto kInBlocks = "quantize_blocks";

/// The pointers of an output for x. Throws Error(failed) for wrong counts or dtypes.
template <class Rule>
Quantized<Rule> quantized(const tensor::Operand& out, const tensor::Tensor& x) {
  require_count(kInBlocks, "data", out.data, x.count());
  require_count(kInBlocks, "scale_inv", out.scale_inv, tensor::scale_shape(out.scaling, x.rows(), x.cols()).count());
  return {out.data.as<typename Rule::Format>(), out.scale_inv.as<typename Rule::Inverse>()};
}

/// `row` or `column` may be null. Only `column` may be transposed, and only blocks of 128×1.
template <class Rule, Blocks kBlocks>
void run(const Exec& exec, const tensor::Operand* row, const tensor::Operand* column, const tensor::Tensor& x,
         const CastOptions& options) {
  const auto by_row = row != nullptr ? quantized<Rule>(*row, x) : Quantized<Rule>{};
  const auto by_column = column != nullptr ? quantized<Rule>(*column, x) : Quantized<Rule>{};
  const bool transposed = column != nullptr && column->transposed;
  SHARD8_REQUIRE((row == nullptr || !row->transposed) && (!transposed || column->scaling == Scaling::column_128),
                 "{}: a cast with {} blocks is stored transposed; allowed is 128x1", kInBlocks,
                 tensor::name_of(transposed ? column->scaling : row->scaling));
  if (x.count() == 0) return;
  dispatch_source(x, options.through_bf16, kInBlocks, [&](const auto& source) {
    quantize_panels<Rule, kBlocks>(exec, by_row, by_column, transposed, source, x.rows(), x.cols(), options,
                                   RowEnd::of(kInBlocks, x, options, kBlocks == Blocks::both ? 2 : 1));
  });
}

/// As run(), for blocks of 128, in the format of the outputs.
template <Blocks kBlocks>
void run_wide(const Exec& exec, const tensor::Operand* row, const tensor::Operand* column, const tensor::Tensor& x,
              const CastOptions& options) {
  dispatch_float8((row != nullptr ? row : column)->data.dtype, kInBlocks,
                  [&]<class Q>(std::type_identity<Q>) { run<WideBlocks<Q>, kBlocks>(exec, row, column, x, options); });
}

}  // namespace

void quantize(const Exec& exec, const tensor::Operand& out, const tensor::Tensor& amax, const tensor::Tensor& x,
              const tensor::Tensor& scale, const CastOptions& options) {
  const auto totals = require_per_tensor("quantize", out, amax, x, scale, options);
  dispatch_float8(out.data.dtype, "quantize", [&]<class Q>(std::type_identity<Q>) {
    dispatch_source(x, options.through_bf16, "quantize", [&](const auto& source) {
      quantize_flat(exec, out.data.as<Q>(), out.scale_inv.as<float>(), totals, source, scale.as<float>(), x.count(),
                    RowEnd::of("quantize", x, options));
    });
  });
}

void quantize_transpose(const Exec& exec, const tensor::Operand& out, const tensor::Tensor& transposed,
                        const tensor::Tensor& amax, const tensor::Tensor& x, const tensor::Tensor& scale,
                        const CastOptions& options) {
  constexpr auto kName = "quantize_transpose";
  const auto totals = require_per_tensor(kName, out, amax, x, scale, options);
  require_count(kName, "transposed", transposed, x.count());
  bool written = false;
  dispatch_float8(out.data.dtype, kName, [&]<class Q>(std::type_identity<Q>) {
    dispatch_source(x, options.through_bf16, kName, [&](const auto& source) {
      written = quantize_tiles(exec, out.data.as<Q>(), transposed.as<Q>(), out.scale_inv.as<float>(), totals, source,
                               scale.as<float>(), x.rows(), x.cols(), options.transposed_alone,
                               RowEnd::of(kName, x, options));
    });
  });
  if (written) return;
  quantize(exec, out, amax, x, scale, options);
  transpose_cast(exec, kName, transposed, out.data);
}

void transpose_bytes(const Exec& exec, const tensor::Tensor& out, const tensor::Tensor& in) {
  require_count("transpose_bytes", "out", out, in.count());
  SHARD8_REQUIRE(tensor::size_of(in.dtype) == 1 && tensor::size_of(out.dtype) == 1,
                 "transpose_bytes: {} of {}; elements of one byte are needed", tensor::name_of(out.dtype),
                 tensor::name_of(in.dtype));
  transpose_tiles(exec, "shard8::kernels::transpose_bytes", out, in);
}

void transpose_cast(const Exec& exec, const char* operator_name, const tensor::Tensor& transposed,
                    const tensor::Tensor& cast) {
  transpose_tiles(exec, label_of("shard8::kernels::", operator_name, "_transpose").c_str(), transposed, cast);
}

void quantize_blocks(const Exec& exec, const tensor::Operand& out, const tensor::Tensor& x,
                     const CastOptions& options) {
  switch (out.scaling) {
    case Scaling::row_128:
      return run_wide<Blocks::row>(exec, &out, nullptr, x, options);
    case Scaling::column_128:
      return run_wide<Blocks::column>(exec, nullptr, &out, x, options);
    case Scaling::tile_128:
      return run<WideBlocks<tensor::E4M3>, Blocks::square>(exec, nullptr, &out, x, options);
    case Scaling::row_32:
      return run<NarrowBlocks, Blocks::row>(exec, &out, nullptr, x, options);
    case Scaling::column_32:
      return run<NarrowBlocks, Blocks::column>(exec, nullptr, &out, x, options);
    default:
      break;
  }
  base::fail(base::ExitCode::failed, "{}: scaling {}; allowed are 1x128, 128x1, 128x128, 1x32 and 32x1", kInBlocks,
             tensor::name_of(out.scaling));
}

void quantize_blocks(const Exec& exec, const tensor::Operand& row, const tensor::Operand& column,
                     const tensor::Tensor& x, const CastOptions& options) {
  if (row.scaling == Scaling::row_128 && column.scaling == Scaling::column_128) {
    return run_wide<Blocks::both>(exec, &row, &column, x, options);
  }
  if (row.scaling == Scaling::row_32 && column.scaling == Scaling::column_32) {
    return run<NarrowBlocks, Blocks::both>(exec, &row, &column, x, options);
  }
  base::fail(base::ExitCode::failed, "{}: {} with {}; allowed are 1x128 with 128x1 and 1x32 with 32x1", kInBlocks,
             tensor::name_of(row.scaling), tensor::name_of(column.scaling));
}

void cast_in_blocks(const Exec& exec, const BlockCasts& out, const tensor::Tensor& x, CastCounts* counts) {
  const CastOptions options{.power_of_2 = out.power_of_2, .counts = counts};
  if (out.rowwise.empty() || out.columnwise.empty())
    quantize_blocks(exec, out.rowwise.empty() ? out.columnwise : out.rowwise, x, options);
  else
    quantize_blocks(exec, out.rowwise, out.columnwise, x, options);
}

}  // namespace shard8::kernels
