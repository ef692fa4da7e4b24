// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "tensor/operand.hpp"

namespace shard8::kernels {

/// One of the two matrices of a product, row-major, multiplied as stored or transposed.
struct Factor {
  const char* name = "";  ///< the argument's name in the operator's declaration, for messages
  tensor::Operand matrix;
  bool transposed = false;
  std::span<const tensor::Scaling> scalings;  ///< the scalings allowed for an FP8 matrix
};

/// A matrix product: c (m, n) [+]= op(a) (m, k) · op(b) (k, n) [+ bias (n) on every row]. op(x) is xᵀ if
/// Factor::transposed, else x.
struct Product {
  tensor::Tensor c;
  Factor a, b;
  tensor::Tensor bias;
  bool accumulate = false;
  std::int64_t m = 0, n = 0, k = 0;
};

/// The three products of kernels/gemm.hpp as Product. Only wgrad_product checks: it throws Error(failed) unless dw is
/// fp32.
Product fprop_product(const tensor::Tensor& y, const tensor::Operand& x, const tensor::Operand& w,
                      const tensor::Tensor& bias);
Product dgrad_product(const tensor::Tensor& dx, const tensor::Operand& dy, const tensor::Operand& w, bool accumulate);
Product wgrad_product(const tensor::Tensor& dw, const tensor::Operand& dy, const tensor::Operand& x, bool accumulate);

/// Throws Error(failed) unless dtypes, scalings and counts are as kernels/gemm.hpp states. The message names the
/// kernel, the matrix, what was given and what is allowed.
void check_product(const char* kernel, const Product& product);

}  // namespace shard8::kernels
