// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.hpp"

namespace shard8::comm::nccl {

/// Most ranks of a group that sums by these kernels: the ranks of a node.
inline constexpr int kMostRanks = 16;

struct Parts {
  const std::byte* data[kMostRanks + 1] = {};  ///< each with the count and the dtype of the sum; one for an addend
  int count = 0;                               ///< parts, at least 1

  void add(const std::byte* part) { data[count++] = part; }
};

/// out (count) = the sum of the parts in their order, in fp32, rounded once. The dtype is fp32 or bf16. out may be one
/// of the parts.
void sum_parts(cudaStream_t stream, void* out, tensor::DType dtype, std::int64_t count, const Parts& parts);

}  // namespace shard8::comm::nccl
