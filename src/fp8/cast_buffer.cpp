// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "fp8/cast_buffer.hpp"

namespace shard8::fp8 {

using tensor::DType;
using tensor::Operand;
using tensor::Scaling;
using tensor::Tensor;

CastBuffer::CastBuffer(tensor::Arena& arena, std::int64_t elements, Scaling scaling)
    : values_(arena.allocate({elements}, DType::u8)),
      scales_(arena.allocate({tensor::scale_bytes(scaling, elements)}, DType::u8)) {}

Operand CastBuffer::view(std::int64_t rows, std::int64_t cols, DType dtype, Scaling scaling) const {
  const Tensor values{values_.data, {rows, cols}, dtype};
  const Tensor scales{scales_.data, tensor::scale_shape(scaling, rows, cols), tensor::scale_dtype(scaling)};
  SHARD8_REQUIRE(values.bytes() <= values_.bytes() && scales.bytes() <= scales_.bytes(),
                 "an FP8 matrix ({}, {}) with {} scales does not fit a buffer of {} and {} bytes", rows, cols,
                 tensor::name_of(scaling), values_.bytes(), scales_.bytes());
  return {values, scales, scaling};
}

Operand CastBuffer::view_transposed(std::int64_t rows, std::int64_t cols, DType dtype, Scaling scaling) const {
  Operand matrix = view(rows, cols, dtype, scaling);
  matrix.data.shape = {cols, rows};
  matrix.transposed = true;
  return matrix;
}

}  // namespace shard8::fp8
