// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tensor/arena.hpp"
#include "tensor/operand.hpp"

namespace shard8::fp8 {

/// Memory for an FP8 matrix: bytes for its values and bytes for its inverse scales. One buffer may hold matrices of
/// different shapes, formats and scalings, one after the other. The buffer does not know which matrix it holds: the
/// view that a caller asks for says so.
class CastBuffer {
 public:
  CastBuffer() = default;
  /// Takes memory from `arena` for matrices of up to `elements` elements with `scaling`.
  CastBuffer(tensor::Arena& arena, std::int64_t elements, tensor::Scaling scaling);

  bool empty() const { return values_.bytes() == 0; }
  /// The bytes of the values.
  const tensor::Tensor& memory() const { return values_; }

  /// The memory as a matrix (rows, cols). Throws Error(failed) if the matrix does not fit, or if rows and cols are not
  /// whole blocks of `scaling`.
  tensor::Operand view(std::int64_t rows, std::int64_t cols, tensor::DType dtype, tensor::Scaling scaling) const;
  /// As view(), for a matrix (rows, cols) that is stored transposed, as (cols, rows).
  tensor::Operand view_transposed(std::int64_t rows, std::int64_t cols, tensor::DType dtype,
                                  tensor::Scaling scaling) const;

 private:
  tensor::Tensor values_{nullptr, {0}, tensor::DType::u8}, scales_{nullptr, {0}, tensor::DType::u8};
};

}  // namespace shard8::fp8
