// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tensor/exec.hpp"
#include "tensor/tensor.hpp"

namespace shard8::kernels {

/// Where a box lies in a global tensor: element (r, c) of the box has the global index
/// offset + r·row_stride + c·col_stride.
struct GlobalIndex {
  std::int64_t offset = 0, row_stride = 0, col_stride = 1;
};

/// out (R, C) fp32: normal with mean 0 and the given standard deviation, a function of
/// (key, global index) alone: a counter-based generator (splitmix64 finalisers of key and index)
/// and the Box–Muller transform in double, so every mesh creates the same tensor.
void normal_fill(const tensor::Exec& exec, const tensor::Tensor& out, std::uint64_t key, const GlobalIndex& index,
                 double standard_deviation);

/// The key of a tensor: a hash of the seed and its Hugging Face name.
std::uint64_t random_key(std::uint64_t seed, const char* name);

}  // namespace shard8::kernels
