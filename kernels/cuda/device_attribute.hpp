// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tensor/cuda/check.hpp"

namespace shard8::kernels::cuda {

/// What the current device has: its number of multiprocessors, its compute capability, and so on.
inline int device_attribute(cudaDeviceAttr which) {
  int device = 0, value = 0;
  SHARD8_CUDA_CHECK(cudaGetDevice(&device));
  SHARD8_CUDA_CHECK(cudaDeviceGetAttribute(&value, which, device));
  return value;
}

}  // namespace shard8::kernels::cuda
