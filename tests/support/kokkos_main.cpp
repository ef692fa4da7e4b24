// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdio>

#include "kernels/blas/blas_core.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/execution.hpp"

#if defined(SHARD8_CUDA)
#include "tensor/cuda/device.hpp"
#endif

int main(int argc, char** argv) {
  shard8::kernels::choose_blas_core();
#if defined(SHARD8_CUDA)
  if (shard8::tensor::cuda::device_count() == 0) {
    std::fputs("skipped: no CUDA device that this process sees\n", stderr);
    return 77;
  }
#endif
  if (!shard8::tests::init_cases(argc, argv)) return 1;
  const shard8::tests::Execution execution(0);
  return RUN_ALL_TESTS();
}
