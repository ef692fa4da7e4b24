// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>

/// Small matrix products of operands in cache, for the blocks of attention. The products use the compiler's vectors
/// (GCC, Clang), as wide as the build's instruction set has. Every element of c is one sum over k in ascending order,
/// so results do not depend on how a block is cut into tiles.
namespace shard8::kernels {

#if defined(__AVX512F__)
inline constexpr int kLanes = 16, kTileVectors = 4;
#elif defined(__AVX__)
inline constexpr int kLanes = 8, kTileVectors = 2;
#else
inline constexpr int kLanes = 4, kTileVectors = 2;
#endif
inline constexpr int kTileRows = 6;

/// A vector of kLanes floats. Rows that are read as vectors must be aligned to kLanes floats.
using Vector = float __attribute__((vector_size(kLanes * sizeof(float)), may_alias));

/// Element (i, p) of an operand is data[i·row + p·column].
struct Scalars {
  const float* data;
  std::int64_t row, column;
};

/// c (Rows, Vectors·kLanes) [+]= a (Rows, k) · b (k, Vectors·kLanes).
template <int Rows, int Vectors>
inline void micro_tile(float* __restrict c, std::int64_t c_stride, const Scalars& a, const float* __restrict b,
                       std::int64_t b_stride, std::int64_t k, bool accumulate) {
  Vector sum[Rows][Vectors];
#pragma GCC unroll 8
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < Vectors; ++v) {
      sum[i][v] = accumulate ? *reinterpret_cast<const Vector*>(c + i * c_stride + v * kLanes) : Vector{};
    }
  }
  const float* scalar = a.data;
  const std::int64_t row = a.row, column = a.column;
  for (std::int64_t p = 0; p < k; ++p) {
    Vector line[Vectors];
#pragma GCC unroll 8
    for (int v = 0; v < Vectors; ++v) line[v] = *reinterpret_cast<const Vector*>(b + v * kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < Rows; ++i) {
      const float s = scalar[i * row];
#pragma GCC unroll 8
      for (int v = 0; v < Vectors; ++v) sum[i][v] += s * line[v];
    }
    scalar += column;
    b += b_stride;
  }
#pragma GCC unroll 8
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < Vectors; ++v) *reinterpret_cast<Vector*>(c + i * c_stride + v * kLanes) = sum[i][v];
  }
}

template <int Vectors>
inline void micro_panel(float* c, std::int64_t c_stride, Scalars a, const float* b, std::int64_t b_stride,
                        std::int64_t m, std::int64_t k, bool accumulate) {
  std::int64_t i = 0;
  for (; i + kTileRows <= m; i += kTileRows) {
    micro_tile<kTileRows, Vectors>(c + i * c_stride, c_stride, a, b, b_stride, k, accumulate);
    a.data += kTileRows * a.row;
  }
  c += i * c_stride;
  switch (m - i) {
    case 5:
      return micro_tile<5, Vectors>(c, c_stride, a, b, b_stride, k, accumulate);
    case 4:
      return micro_tile<4, Vectors>(c, c_stride, a, b, b_stride, k, accumulate);
    case 3:
      return micro_tile<3, Vectors>(c, c_stride, a, b, b_stride, k, accumulate);
    case 2:
      return micro_tile<2, Vectors>(c, c_stride, a, b, b_stride, k, accumulate);
    case 1:
      return micro_tile<1, Vectors>(c, c_stride, a, b, b_stride, k, accumulate);
    default:
      return;
  }
}

/// c (m, n) [+]= a (m, k) · b (k, n). n must be a multiple of kLanes.
inline void micro_gemm(float* c, std::int64_t c_stride, const Scalars& a, const float* b, std::int64_t b_stride,
                       std::int64_t m, std::int64_t n, std::int64_t k, bool accumulate) {
  constexpr std::int64_t kWide = kTileVectors * kLanes;
  std::int64_t j = 0;
  for (; j + kWide <= n; j += kWide) {
    micro_panel<kTileVectors>(c + j, c_stride, a, b + j, b_stride, m, k, accumulate);
  }
  if constexpr (kTileVectors > 2) {
    if (n - j == 3 * kLanes) return micro_panel<3>(c + j, c_stride, a, b + j, b_stride, m, k, accumulate);
    if (n - j == 2 * kLanes) return micro_panel<2>(c + j, c_stride, a, b + j, b_stride, m, k, accumulate);
  }
  if (n - j == kLanes) micro_panel<1>(c + j, c_stride, a, b + j, b_stride, m, k, accumulate);
}

/// One step of the butterfly that transposes kLanes vectors. `low` and `high` are vectors whose numbers differ in bit
/// `Bit`. The step exchanges the lanes of `low` that have the bit with the lanes of `high` that do not.
template <int Bit, std::size_t... Lane>
inline void swap_lanes(Vector& low, Vector& high, std::index_sequence<Lane...>) {
  constexpr auto bit = static_cast<std::size_t>(Bit), lanes = static_cast<std::size_t>(kLanes);
  const Vector a = low, b = high;
  low = __builtin_shufflevector(a, b, ((Lane & bit) == 0 ? Lane : lanes + Lane - bit)...);
  high = __builtin_shufflevector(a, b, ((Lane & bit) == 0 ? Lane + bit : lanes + Lane)...);
}

template <int Bit>
inline void swap_bit(Vector (&x)[kLanes]) {
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) {
    if ((i & Bit) == 0) swap_lanes<Bit>(x[i], x[i + Bit], std::make_index_sequence<kLanes>{});
  }
}

/// to (columns, rows) = from (rows, columns)ᵀ. Both extents and both strides must be multiples of kLanes.
inline void transpose(float* to, std::int64_t to_stride, const float* from, std::int64_t from_stride, std::int64_t rows,
                      std::int64_t columns) {
  for (std::int64_t i = 0; i < rows; i += kLanes) {
    for (std::int64_t j = 0; j < columns; j += kLanes) {
      Vector x[kLanes];
#pragma GCC unroll 16
      for (int l = 0; l < kLanes; ++l) x[l] = *reinterpret_cast<const Vector*>(from + (i + l) * from_stride + j);
      swap_bit<1>(x);
      swap_bit<2>(x);
      if constexpr (kLanes > 4) swap_bit<4>(x);
      if constexpr (kLanes > 8) swap_bit<8>(x);
#pragma GCC unroll 16
      for (int l = 0; l < kLanes; ++l) *reinterpret_cast<Vector*>(to + (j + l) * to_stride + i) = x[l];
    }
  }
}

}  // namespace shard8::kernels
