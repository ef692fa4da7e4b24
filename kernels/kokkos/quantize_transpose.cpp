// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/kokkos/cast.hpp"
#include "kernels/kokkos/dispatch.hpp"
#include "kernels/kokkos/transpose_tile.hpp"

namespace shard8::kernels {
namespace {

template <class Q, class Source>
void quantize_tiles(const Exec& exec, Q* out, Q* transposed, float* scale_inv, const CastTotals& totals,
                    const Source& x, const float* scale, std::int64_t rows, std::int64_t cols) {
  // One tile at least: the inverse scale of an empty matrix is wanted too.
  for_rows(
      exec, "shard8::kernels::quantize_transpose", std::max<std::int64_t>(1, ByteTile::count(rows, cols)),
      KOKKOS_LAMBDA(const Team& team, std::int64_t index) {
        const float factor = *scale;
        CastStats stats;
        if (rows * cols != 0) {
          const auto tile = ByteTile::of(index, rows, cols);
          for (std::int64_t r = tile.row0; r < tile.row0 + tile.rows; ++r) {
            const auto in = x.from(r * cols + tile.col0);
            Q* const to = out + r * cols + tile.col0;
            stats += row_stats(team, tile.cols, [=](std::int64_t c) { return cast_element(to[c], in(c), factor); });
          }
          row_barrier(team);  // the tile is read back
          transpose_tile(team, reinterpret_cast<std::uint8_t*>(transposed), reinterpret_cast<const std::uint8_t*>(out),
                         rows, cols, tile);
        }
        once(team, [=] {
          totals.add(stats);
          if (index == 0) *scale_inv = 1.0f / factor;
        });
      });
}

}  // namespace

void quantize_transpose(const Exec& exec, const tensor::Operand& out, const tensor::Tensor& transposed,
                        const tensor::Tensor& amax, const tensor::Tensor& x, const tensor::Tensor& scale,
                        const CastOptions& options) {
  const auto totals = require_per_tensor("quantize_transpose", out, amax, x, scale, options);
  require_count("quantize_transpose", "transposed", transposed, x.count());
  dispatch_float8(out.data.dtype, "quantize_transpose", [&]<class Q>(std::type_identity<Q>) {
    dispatch_source(x, options.through_bf16, "quantize_transpose", [&](const auto& source) {
      quantize_tiles(exec, out.data.as<Q>(), transposed.as<Q>(), out.scale_inv.as<float>(), totals, source,
                     scale.as<float>(), x.rows(), x.cols());
    });
  });
}

}  // namespace shard8::kernels
