// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// This library is loaded before all others. On the rank SHARD8_STUCK_RANK, or without a launcher, the product number
// SHARD8_STUCK_AT never returns: the main thread hangs outside of MPI.

#include <cblas.h>
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace {

long number_of(const char* name, long otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : std::atol(value);
}

}  // namespace

extern "C" void cblas_sgemm(CBLAS_LAYOUT layout, CBLAS_TRANSPOSE transpose_a, CBLAS_TRANSPOSE transpose_b, blasint m,
                            blasint n, blasint k, float alpha, const float* a, blasint stride_a, const float* b,
                            blasint stride_b, float beta, float* c, blasint stride_c) {
  static long products = 0;
  static const bool stuck = number_of("PMI_RANK", 0) == number_of("SHARD8_STUCK_RANK", 0);
  if (++products == number_of("SHARD8_STUCK_AT", 0) && stuck)
    for (;;) ::pause();
  using Product = decltype(&cblas_sgemm);
  static const auto real = reinterpret_cast<Product>(::dlsym(RTLD_NEXT, "cblas_sgemm"));
  real(layout, transpose_a, transpose_b, m, n, k, alpha, a, stride_a, b, stride_b, beta, c, stride_c);
}
