// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/kokkos/cast.hpp"
#include "kernels/kokkos/dispatch.hpp"
#include "kernels/kokkos/transpose_tile.hpp"

namespace shard8::kernels {
namespace {

/// A team's part of both outputs.
template <class Q, class Source>
struct QuantizeTiles {
  Q *out, *transposed;
  float* scale_inv;
  CastTotals totals;
  Source x;
  const float* scale;
  std::int64_t rows, cols;
  bool whole;  ///< of squares: all are

  /// One at least: the inverse scale of an empty matrix is wanted too.
  std::int64_t teams() const {
    return std::max<std::int64_t>(1, kHostExec ? ByteTile::count(rows, cols) : ByteSquare::teams(rows, cols));
  }

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
  template <class AnyMember>
  KOKKOS_INLINE_FUNCTION void operator()(const AnyMember& team, std::int64_t index) const {
    const float factor = *scale;
    CastStats stats;
    ByteSquare::for_each(team, index, rows, cols, [&](const ByteSquare& square) {
      stats += whole ? cast_square(square, factor) : cast_part(square, factor);
    });
    totals.add(team, stats);
    if (index == 0) once(team, [=, to = scale_inv] { *to = 1.0f / factor; });
  }

 private:
  KOKKOS_FORCEINLINE_FUNCTION static std::uint8_t* bytes_of(Q* codes) { return reinterpret_cast<std::uint8_t*>(codes); }
  /// Rows are loaded a few at a time, so that enough is on its way, and kept as codes.
  KOKKOS_FORCEINLINE_FUNCTION CastStats cast_square(const ByteSquare& square, float factor) const {
    constexpr int kAtOnce = sizeof(typename Source::Type) == 2 ? 4 : 2;
    const Packed<16, 1> w{0};
    const std::int64_t start = square.row0 * cols + square.col0;
    CastSigns signs;
    Words<16> codes[16];
    SHARD8_UNROLL
    for (int first = 0; first < 16; first += kAtOnce) {
      decltype(x.load(w, 0)) in[kAtOnce];
      SHARD8_UNROLL
      for (int r = 0; r < kAtOnce; ++r) in[r] = x.load(w, start + (first + r) * cols);
      SHARD8_UNROLL
      for (int r = 0; r < kAtOnce; ++r) {
        float values[16];
        SHARD8_UNROLL
        for (int k = 0; k < 16; ++k) values[k] = in[r][k];
        cast_numbers<Q>(codes[first + r], signs, values, factor);
        store_words(out + start + (first + r) * cols, codes[first + r]);
      }
    }
    store_turned(bytes_of(transposed) + square.col0 * rows + square.row0, rows, codes);
    CastStats stats;
    if (signs.rare<Q>(factor)) stats = count_square(square, factor);
    stats.amax = signs.amax;
    return stats;
  }
  /// Reads what was cast once more: it is in the cache.
  KOKKOS_INLINE_FUNCTION CastStats count_square(const ByteSquare& square, float factor) const {
    const Packed<16, 1> w{0};
    CastStats stats;
    for (std::int64_t r = square.row0; r < square.row0 + 16; ++r) {
      const std::int64_t start = r * cols + square.col0;
      const auto in = x.load(w, start);
      float values[16];
      SHARD8_UNROLL
      for (int k = 0; k < 16; ++k) values[k] = in[k];
      Words<16> codes = load_words<16>(out + start);
      const Words<16> before = codes;
      stats += count_pack<Q>(codes, values, OneScale{factor});
      SHARD8_UNROLL
      for (int k = 0; k < 16; ++k) {
        const Q code = codes.template at<Q>(k);
        if (code.bits == before.template at<Q>(k).bits) continue;
        out[start + k] = code;
        transposed[(square.col0 + k) * rows + r] = code;
      }
    }
    return stats;
  }
  KOKKOS_INLINE_FUNCTION CastStats cast_part(const ByteSquare& square, float factor) const {
    CastStats stats;
    for (std::int64_t r = square.row0; r < square.row0 + 16 && r < rows; ++r) {
      for (std::int64_t c = square.col0; c < square.col0 + 16 && c < cols; ++c) {
        Q& code = out[r * cols + c];
        stats += cast_element(code, x.load(Single{}, r * cols + c)[0], factor);
        transposed[c * rows + r] = code;
      }
    }
    return stats;
  }
};

template <class Q, class Source>
void quantize_tiles(const Exec& exec, Q* out, Q* transposed, float* scale_inv, const CastTotals& totals,
                    const Source& x, const float* scale, std::int64_t rows, std::int64_t cols) {
  const bool whole = squares_fit(rows, cols, x.x, out, transposed);
  const QuantizeTiles<Q, Source> tiles{out, transposed, scale_inv, totals, x, scale, rows, cols, whole};
  for_rows(exec, "shard8::kernels::quantize_transpose", tiles.teams(), tiles);
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
