// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tensor/arena.hpp"
#include "tensor/operand.hpp"

namespace shard8::fp8 {

/// Memory for an FP8 matrix: bytes of its values and of its inverse scales. One buffer may hold matrices of different
/// shapes, formats and scalings, one after the other; a view says which is in it.
class CastBuffer {
 public:
  CastBuffer() = default;
  /// Room for matrices of up to `elements` elements under `scaling`.
  CastBuffer(tensor::Arena& arena, std::int64_t elements, tensor::Scaling scaling);

  bool empty() const { return values_.bytes() == 0; }

  /// The matrix (rows, cols). Throws Error(failed) if it does not fit.
  tensor::Operand view(std::int64_t rows, std::int64_t cols, tensor::DType dtype, tensor::Scaling scaling) const;
  /// The matrix (rows, cols), stored transposed, as (cols, rows).
  tensor::Operand view_transposed(std::int64_t rows, std::int64_t cols, tensor::DType dtype,
                                  tensor::Scaling scaling) const;

 private:
  tensor::Tensor values_{nullptr, {0}, tensor::DType::u8}, scales_{nullptr, {0}, tensor::DType::u8};
};

/// Bytes of the inverse scales of `elements` elements, which are whole blocks.
std::int64_t scale_bytes(tensor::Scaling scaling, std::int64_t elements);

}  // namespace shard8::fp8
