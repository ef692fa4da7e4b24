// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cblas.h>

#include <cstdint>
#include <limits>

#include "base/error.hpp"
#include "kernels/check/gemm.hpp"
#include "tensor/runtime.hpp"

namespace shard8::kernels {

/// A row-major fp32 matrix in memory, multiplied as stored or transposed. `stride`: elements from one row to the next.
struct BlasOperand {
  const float* data = nullptr;
  std::int64_t stride = 0;
  bool transposed = false;
};

/// n as the BLAS takes it. Throws Error(failed) if n does not fit in 32 bits.
inline int blas_int(std::int64_t n) {
  SHARD8_REQUIRE(n <= std::numeric_limits<int>::max(), "extent {} of a matrix product is beyond the BLAS' 32 bits", n);
  return static_cast<int>(n);
}

/// c (m, n) = alpha·a (m, k)·b (k, n) + beta·c. `stride`: elements from one row of c to the next.
inline void sgemm(float* c, std::int64_t stride, const BlasOperand& a, const BlasOperand& b, std::int64_t m,
                  std::int64_t n, std::int64_t k, float alpha, float beta) {
  cblas_sgemm(CblasRowMajor, a.transposed ? CblasTrans : CblasNoTrans, b.transposed ? CblasTrans : CblasNoTrans,
              blas_int(m), blas_int(n), blas_int(k), alpha, a.data, blas_int(a.stride), b.data, blas_int(b.stride),
              beta, c, blas_int(stride));
}

/// Rows and columns of the tiles in which bf16 and FP8 matrices are decoded.
inline constexpr std::int64_t kProductTile = 1024;

/// Decodes tiles of one factor to fp32: its elements times the scales of their blocks. A DecodedTile keeps its last
/// tile, so a tile that is requested twice in a row is decoded once.
class DecodedTile {
 public:
  /// `scale` multiplies every element of a matrix without block scales. The scale_inv of Scaling::tensor is not applied
  /// here. `memory` must hold the largest tile.
  DecodedTile(const Factor& factor, float scale, float* memory) : factor_(factor), scale_(scale), memory_(memory) {}

  /// Rows [i, i + ni) and columns [j, j + nj) of op(factor), in `memory`. The result is valid until the next call.
  BlasOperand get(const tensor::Exec& exec, std::int64_t i, std::int64_t ni, std::int64_t j, std::int64_t nj);

 private:
  /// A tile of the matrix as stored.
  struct Box {
    std::int64_t row = -1, rows = 0, col = -1, cols = 0;
    bool operator==(const Box&) const = default;
  };

  template <class T>
  void decode(const tensor::Exec& exec) const;
  template <class T>
  void decode_whole(const tensor::Exec& exec) const;
  template <class T, class Scale, int kWidth>
  void decode_blocks(const tensor::Exec& exec) const;
  template <class T, class Line>
  void decode_lines(const tensor::Exec& exec, const Line& line) const;

  Factor factor_;
  float scale_;
  float* memory_;
  Box held_;
};

}  // namespace shard8::kernels
