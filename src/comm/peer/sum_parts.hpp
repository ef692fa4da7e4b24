// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "comm/peer/addresses.hpp"
#include "tensor/dtype.hpp"

namespace shard8::comm::peer {

/// Addresses of the parts of a sum, each with the count and the dtype of the sum.
struct Parts {
  const std::byte* data[kMostRanks + 1] = {};  ///< of all ranks, and of an addend
  int count = 0;                               ///< parts, at least 1

  void add(const std::byte* part) { data[count++] = part; }
};

/// out (count) = the sum of the parts in their order, in fp32, rounded once. The dtype is fp32 or bf16. out may be one
/// of the parts.
void sum_parts(cudaStream_t stream, void* out, tensor::DType dtype, std::int64_t count, const Parts& parts);

}  // namespace shard8::comm::peer
