// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include "tensor/cuda/check.hpp"
#include "tests/support/rank_device.hpp"

namespace shard8::comm::tests {

using shard8::tests::kSkipped;

/// Makes this rank's device the current one. False, on every rank, where a node has fewer than ranks.
inline bool take_device(MPI_Comm world) {
  const auto device = shard8::tests::rank_device(world);
  if (device) SHARD8_CUDA_CHECK(cudaSetDevice(*device));
  return device.has_value();
}

}  // namespace shard8::comm::tests
