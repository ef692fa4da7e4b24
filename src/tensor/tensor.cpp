// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "tensor/tensor.hpp"

#include "tensor/operand.hpp"

namespace shard8::tensor {

std::string to_string(const Shape& shape) {
  std::string s = "(";
  for (int d = 0; d < shape.rank(); ++d) s += (d > 0 ? ", " : "") + std::to_string(shape[d]);
  return s + ")";
}

std::int64_t block_rows(Scaling scaling) {
  switch (scaling) {
    case Scaling::column_128:
    case Scaling::tile_128:
      return 128;
    case Scaling::column_32:
      return 32;
    default:
      return 1;
  }
}

std::int64_t block_cols(Scaling scaling) {
  switch (scaling) {
    case Scaling::row_128:
    case Scaling::tile_128:
      return 128;
    case Scaling::row_32:
      return 32;
    default:
      return 1;
  }
}

Operand Operand::slice(std::int64_t first, std::int64_t count) const {
  SHARD8_REQUIRE(!transposed, "rows of a matrix {} that is stored transposed", to_string(data.shape));
  Operand rows(data.slice(first, count));
  rows.scaling = scaling;
  rows.scale_inv = scale_inv;
  rows.matrix_scale_inv = matrix_scale_inv;
  if (scaling == Scaling::none || scaling == Scaling::tensor) return rows;
  const std::int64_t block = block_rows(scaling);
  SHARD8_REQUIRE(first % block == 0 && count % block == 0, "rows {} to {} are not whole blocks of {}", first,
                 first + count, block);
  rows.scale_inv = scale_inv.slice(first / block, count / block);
  return rows;
}

Shape scale_shape(Scaling scaling, std::int64_t rows, std::int64_t cols) {
  if (scaling == Scaling::none) return {0};
  if (scaling == Scaling::tensor) return {1};
  const std::int64_t r = block_rows(scaling), c = block_cols(scaling);
  SHARD8_REQUIRE(rows % r == 0 && cols % c == 0, "({}, {}) cannot be cut into {}x{} blocks", rows, cols, r, c);
  return {rows / r, cols / c};
}

DType scale_dtype(Scaling scaling) {
  return scaling == Scaling::row_32 || scaling == Scaling::column_32 ? DType::e8m0 : DType::fp32;
}

std::string_view name_of(Scaling scaling) {
  constexpr std::string_view names[] = {"none", "tensor", "1x128", "128x1", "128x128", "1x32", "32x1"};
  return names[static_cast<int>(scaling)];
}

std::int64_t scale_bytes(Scaling scaling, std::int64_t elements) {
  const auto bytes = static_cast<std::int64_t>(size_of(scale_dtype(scaling)));
  if (scaling == Scaling::none) return 0;
  if (scaling == Scaling::tensor) return bytes;
  return elements / (block_rows(scaling) * block_cols(scaling)) * bytes;
}

}  // namespace shard8::tensor
