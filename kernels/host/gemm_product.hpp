// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/exec.hpp"
#include "tensor/tensor.hpp"

namespace shard8::kernels {

/// A matrix product on the host: c (m, n) [+]= op(a) (m, k) · op(b) (k, n) [+ bias (n) on every
/// row], where op transposes the row-major tensor or does not.
struct Product {
  tensor::Tensor c, a, b, bias;
  bool a_transposed = false, b_transposed = false, accumulate = false;
  std::int64_t m = 0, n = 0, k = 0;
};

/// Rows and columns of the tiles in which bf16 operands are decoded.
inline constexpr std::int64_t kProductTile = 1024;

/// fp32 operands in place, bf16 operands through fp32 tiles in `workspace`.
void multiply(const tensor::Exec& exec, const char* kernel, const Product& product, const tensor::Tensor& workspace);

}  // namespace shard8::kernels
