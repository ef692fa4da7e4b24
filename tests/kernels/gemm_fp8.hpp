// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <ostream>
#include <random>
#include <vector>

#include "tensor/operand.hpp"
#include "tests/kernels/buffer.hpp"

namespace shard8::tests {

using tensor::Operand;
using tensor::Scaling;

/// An FP8 matrix of normal numbers with random scales, different for nearly all blocks. Its values are of size 1 (at
/// most 8 or so). `spread` multiplies the scales.
class Quantized {
 public:
  Quantized(const Shape& shape, DType dtype, Scaling scaling, unsigned seed, double spread = 1)
      : scaling_(scaling),
        data_(Buffer::normal(shape, dtype, seed, 30)),
        scale_inv_(tensor::scale_shape(scaling, shape[0], shape[1]), tensor::scale_dtype(scaling)) {
    std::mt19937_64 engine(seed + 1000);
    std::uniform_real_distribution<double> draw(-6, -4);
    std::vector<double> scales(scale_inv_.get().size());
    for (auto& s : scales) s = spread * std::exp2(draw(engine));
    scale_inv_.set(scales);
  }

  Operand operand() const { return {data_, scale_inv_, scaling_}; }
  operator Operand() const { return operand(); }  // NOLINT: passed to kernels as it is
  Buffer& data() { return data_; }
  const Buffer& data() const { return data_; }
  Buffer& scale_inv() { return scale_inv_; }

  /// The values: element · scale, exactly.
  std::vector<double> values() const {
    auto values = data_.get();
    const auto scales = scale_inv_.get();
    const std::int64_t rows = data_.shape()[0], cols = data_.shape()[1];
    const bool one = scaling_ == Scaling::tensor;
    const std::int64_t height = tensor::block_rows(scaling_), width = tensor::block_cols(scaling_);
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < cols; ++c) {
        const std::int64_t block = one ? 0 : r / height * (cols / width) + c / width;
        values[static_cast<std::size_t>(r * cols + c)] *= scales[static_cast<std::size_t>(block)];
      }
    }
    return values;
  }

 private:
  Scaling scaling_;
  Buffer data_, scale_inv_;
};

/// Scalings that belong together: of activations and gradients rowwise and columnwise, and of weights rowwise and
/// columnwise.
struct Family {
  const char* name;
  std::int64_t width;
  Scaling row, column, weight_row, weight_column;
  friend std::ostream& operator<<(std::ostream& out, const Family& f) { return out << f.name; }
};
inline constexpr Family kFamilies[] = {
    {"tensor", 1, Scaling::tensor, Scaling::tensor, Scaling::tensor, Scaling::tensor},
    {"blocks_128", 128, Scaling::row_128, Scaling::column_128, Scaling::tile_128, Scaling::tile_128},
    {"blocks_32", 32, Scaling::row_32, Scaling::column_32, Scaling::row_32, Scaling::column_32}};

}  // namespace shard8::tests
