// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

/// Small matrix products of operands in cache, for the blocks of attention. They use the compiler's vectors (GCC,
/// Clang), as wide as the build's instruction set has. Every element of c is one sum over k in ascending order, so
/// results do not depend on how a block is cut into tiles.
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

}  // namespace shard8::kernels
