// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/exec.hpp"
#include "tensor/operand.hpp"

namespace shard8::kernels {

/// One of the two matrices of a product, row-major, taken as it lies or transposed.
struct Factor {
  const char* name = "";  ///< for messages, as the kernel's declaration has it
  tensor::Operand matrix;
  bool transposed = false;
  std::span<const tensor::Scaling> scalings;  ///< allowed where it is FP8
};

/// A matrix product on the host: c (m, n) [+]= op(a) (m, k) · op(b) (k, n) [+ bias (n) on every
/// row], where op transposes or does not.
struct Product {
  tensor::Tensor c;
  Factor a, b;
  tensor::Tensor bias;
  bool accumulate = false;
  std::int64_t m = 0, n = 0, k = 0;
};

/// Rows and columns of the tiles in which bf16 and FP8 matrices are decoded.
inline constexpr std::int64_t kProductTile = 1024;

constexpr bool is_float8(tensor::DType dtype) { return dtype == tensor::DType::e4m3 || dtype == tensor::DType::e5m2; }

/// Throws Error(failed) naming the kernel, the matrix, what was given and what is allowed.
void check_product(const char* kernel, const Product& product);

/// fp32 matrices in place, others through fp32 tiles in `workspace`.
void multiply(const tensor::Exec& exec, const char* kernel, const Product& product, const tensor::Tensor& workspace);

}  // namespace shard8::kernels
