// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tensor/exec.hpp"
#include "tensor/tensor.hpp"

namespace shard8::kernels {

/// Where a box lies in a global tensor: element (r, c) of the box has the global index offset + r·row_stride +
/// c·col_stride. In elements.
struct GlobalIndex {
  std::int64_t offset = 0, row_stride = 0, col_stride = 1;
};

/// Fills out (R, C) fp32 with normal numbers of mean 0 and the given standard deviation. Each number depends on (key,
/// global index) alone, so every mesh creates the same tensor. The generator is counter-based: splitmix64 of key and
/// index, then the Box–Muller transform in double.
void normal_fill(const tensor::Exec& exec, const tensor::Tensor& out, std::uint64_t key, const GlobalIndex& index,
                 double standard_deviation);

/// The key of a tensor: a hash of the seed and of the tensor's Hugging Face name. Runs on the host.
std::uint64_t random_key(std::uint64_t seed, const char* name);

}  // namespace shard8::kernels
