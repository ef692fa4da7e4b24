// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cblas.h>

#include <cstdint>
#include <limits>

#include "base/error.hpp"

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

}  // namespace shard8::kernels
