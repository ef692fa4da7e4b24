// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tensor/arena.hpp"
#include "tensor/operand.hpp"

namespace shard8::fp8 {

/// A copy of an FP8 matrix: bytes of values and of inverse scales, viewed as what is in them. One
/// buffer may hold matrices of different shapes, formats and scalings, one after the other.
class CastBuffer {
 public:
  CastBuffer() = default;
  /// For matrices of up to `elements` elements under either scaling.
  CastBuffer(tensor::Arena& arena, std::int64_t elements, tensor::Scaling scaling);

  bool empty() const { return values_.bytes() == 0; }

  /// The matrix (rows, cols) in it.
  tensor::Operand view(std::int64_t rows, std::int64_t cols, tensor::DType dtype, tensor::Scaling scaling) const;
  /// The same, which lies there as (cols, rows).
  tensor::Operand view_transposed(std::int64_t rows, std::int64_t cols, tensor::DType dtype,
                                  tensor::Scaling scaling) const;

 private:
  tensor::Tensor values_{nullptr, {0}, tensor::DType::u8}, scales_{nullptr, {0}, tensor::DType::u8};
};

/// Bytes of the inverse scales of so many elements, in whole blocks.
std::int64_t scale_bytes(tensor::Scaling scaling, std::int64_t elements);

}  // namespace shard8::fp8
