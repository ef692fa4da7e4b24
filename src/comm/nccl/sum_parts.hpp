// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.hpp"

namespace shard8::comm::nccl {

/// Ranks of a node.
inline constexpr int kMostRanks = 16;

struct Parts {
  const std::byte* data[kMostRanks + 1] = {};  ///< as many elements as the sum each, of its dtype
  int count = 0;                               ///< from 1 on

  void add(const std::byte* part) { data[count++] = part; }
};

/// out, `count` elements, = the sum of the parts in their order, added in fp32 and rounded once. fp32 or bf16;
/// out may be a part.
void sum_parts(cudaStream_t stream, void* out, tensor::DType dtype, std::int64_t count, const Parts& parts);

}  // namespace shard8::comm::nccl
