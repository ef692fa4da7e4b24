// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/check/arguments.hpp"
#include "kernels/kokkos/cast.hpp"
#include "kernels/kokkos/cast_tiles.hpp"
#include "kernels/kokkos/transpose_tile.hpp"

namespace shard8::kernels {
namespace {

/// A host thread's tile of both outputs.
template <class Q, class Source>
struct QuantizeTiles {
  Q *out, *transposed;
  float* scale_inv;
  CastTotals totals;
  Source x;
  const float* scale;
  std::int64_t rows, cols;

  /// One at least: the inverse scale of an empty matrix is wanted too.
  std::int64_t count() const { return std::max<std::int64_t>(1, ByteTile::count(rows, cols)); }

  void operator()(const HostTeam& team, std::int64_t index) const {
    const QuantizeTiles at = *this;  // what the codes that are stored cannot be
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
      transpose_tile(team, bytes_of(at.transposed), bytes_of(at.out), at.rows, at.cols, tile);
    }
    at.totals.add(stats);
    if (index == 0) *at.scale_inv = 1.0f / factor;
  }

 private:
  static std::uint8_t* bytes_of(Q* codes) { return reinterpret_cast<std::uint8_t*>(codes); }
};

/// Makes what a source has, as it is.
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
  KOKKOS_FORCEINLINE_FUNCTION auto make(const W&, const Lanes& in) const {
    return Parts<1, Lanes>{{in}};
  }
};

/// Whether all was left in one pass.
template <class Q, class Source>
bool quantize_tiles(const Exec& exec, Q* out, Q* transposed, float* scale_inv, const CastTotals& totals,
                    const Source& x, const float* scale, std::int64_t rows, std::int64_t cols,
                    [[maybe_unused]] bool transposed_alone) {
  constexpr auto kLabel = "shard8::kernels::quantize_transpose";
  if constexpr (kHostExec) {
    const QuantizeTiles<Q, Source> tiles{out, transposed, scale_inv, totals, x, scale, rows, cols};
    for_rows(exec, kLabel, tiles.count(), tiles);
    return true;
  } else {
    using T = typename Source::Type;
    const Emitter<Emits<T, Q, false, true>> emitter{nullptr, out,        scale,           scale_inv,
                                                    totals,  transposed, transposed_alone};
    return rows * cols != 0 && emit_tiles(exec, kLabel, emitter, Copied<Source>{x, cols}, rows, cols,
                                          emitter.template fits<kPack<T>>(cols, x.x));
  }
}

}  // namespace

void quantize_transpose(const Exec& exec, const tensor::Operand& out, const tensor::Tensor& transposed,
                        const tensor::Tensor& amax, const tensor::Tensor& x, const tensor::Tensor& scale,
                        const CastOptions& options) {
  constexpr auto kName = "quantize_transpose";
  const auto totals = require_per_tensor(kName, out, amax, x, scale, options);
  require_count(kName, "transposed", transposed, x.count());
  bool left = false;
  dispatch_float8(out.data.dtype, kName, [&]<class Q>(std::type_identity<Q>) {
    dispatch_source(x, options.through_bf16, kName, [&](const auto& source) {
      left = quantize_tiles(exec, out.data.as<Q>(), transposed.as<Q>(), out.scale_inv.as<float>(), totals, source,
                            scale.as<float>(), x.rows(), x.cols(), options.transposed_alone);
    });
  });
  if (left) return;
  quantize(exec, out, amax, x, scale, options);
  transpose_cast(exec, kName, transposed, out.data);
}

}  // namespace shard8::kernels
