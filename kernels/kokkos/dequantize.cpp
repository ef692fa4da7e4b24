// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "kernels/kokkos/cast.hpp"
#include "kernels/kokkos/dispatch.hpp"

namespace shard8::kernels {
namespace {

constexpr auto kLabel = "shard8::kernels::dequantize";

/// value·scale_inv, rounded once. Times a power of two, e8m0, it is exact in fp32: no product of the
/// two is as small as the last place of the subnormal numbers.
template <class Out>
KOKKOS_INLINE_FUNCTION Out product(float value, tensor::E8M0 scale_inv) {
  return static_cast<Out>(value * static_cast<float>(scale_inv));
}
/// Otherwise it is exact in double. On its way to bf16 it is rounded to the odd one of its two fp32
/// neighbours, so that the last rounding sees on which side of a tie it is.
template <class Out>
KOKKOS_INLINE_FUNCTION Out product(float value, float scale_inv) {
  if constexpr (std::is_same_v<Out, float>) {
    return value * scale_inv;
  } else {
    const double exact = std::abs(static_cast<double>(value) * static_cast<double>(scale_inv));
    const auto nearest = static_cast<float>(exact);
    const auto bits = std::bit_cast<std::uint32_t>(nearest);
    const std::uint32_t even = ~bits & 1u, below = static_cast<double>(nearest) < exact ? even : 0u;
    const std::uint32_t above = static_cast<double>(nearest) > exact ? even : 0u;
    const std::uint32_t sign = std::bit_cast<std::uint32_t>(value) ^ std::bit_cast<std::uint32_t>(scale_inv);
    return Out(std::bit_cast<float>((bits + below - above) | (sign & 0x80000000u)));
  }
}

/// One scale for all.
template <class Out, class Q>
void whole(const Exec& exec, Out* out, const Q* in, const float* scale_inv, std::int64_t count) {
  for_stretches(
      exec, kLabel, count, KOKKOS_LAMBDA(const Team& team, std::int64_t first, std::int64_t n) {
        const float scale = *scale_inv;
        row_for(team, n, [to = out + first, from = in + first, scale](std::int64_t i) {
          to[i] = product<Out>(static_cast<float>(from[i]), scale);
        });
      });
}

/// Blocks of block_rows rows and block_cols columns.
template <class Out, class Q, class Inverse>
void blocks(const Exec& exec, Out* out, const Q* in, const Inverse* scale_inv, std::int64_t rows, std::int64_t cols,
            std::int64_t block_rows, std::int64_t block_cols) {
  const std::int64_t across = cols / block_cols;
  for_rows(
      exec, kLabel, rows, KOKKOS_LAMBDA(const Team& team, std::int64_t row) {
        const Inverse* const scales = scale_inv + row / block_rows * across;
        Out* const to = out + row * cols;
        const Q* const from = in + row * cols;
        if (block_cols == 1) {
          row_for(team, cols, [=](std::int64_t c) { to[c] = product<Out>(static_cast<float>(from[c]), scales[c]); });
          return;
        }
        for (std::int64_t b = 0; b < across; ++b) {
          const Inverse scale = scales[b];
          const std::int64_t first = b * block_cols;
          row_for(team, block_cols,
                  [=](std::int64_t c) { to[first + c] = product<Out>(static_cast<float>(from[first + c]), scale); });
        }
      });
}

template <class Out, class Q>
void decode(const Exec& exec, const tensor::Tensor& out, const tensor::Operand& in) {
  auto* to = out.as<Out>();
  const auto* from = in.data.as<Q>();
  const auto& scales = in.scale_inv;
  if (in.scaling == tensor::Scaling::tensor) return whole(exec, to, from, scales.as<float>(), out.count());
  const auto rows = tensor::block_rows(in.scaling), cols = tensor::block_cols(in.scaling);
  if (tensor::scale_dtype(in.scaling) == tensor::DType::e8m0) {
    blocks(exec, to, from, scales.as<tensor::E8M0>(), in.rows(), in.cols(), rows, cols);
  } else {
    blocks(exec, to, from, scales.as<float>(), in.rows(), in.cols(), rows, cols);
  }
}

}  // namespace

void dequantize(const Exec& exec, const tensor::Tensor& out, const tensor::Operand& in) {
  SHARD8_REQUIRE(in.scaling != tensor::Scaling::none, "dequantize: a plain matrix; one with scales is needed");
  require_count("dequantize", "data", in.data, out.count());
  require_count("dequantize", "scale_inv", in.scale_inv, tensor::scale_shape(in.scaling, in.rows(), in.cols()).count());
  if (out.count() == 0) return;
  dispatch_real(out.dtype, "dequantize", [&]<class Out>(std::type_identity<Out>) {
    dispatch_float8(in.data.dtype, "dequantize",
                    [&]<class Q>(std::type_identity<Q>) { decode<Out, Q>(exec, out, in); });
  });
}

}  // namespace shard8::kernels
