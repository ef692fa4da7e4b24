// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/check/gemm.hpp"
#include "kernels/host/blas.hpp"
#include "tensor/exec.hpp"

namespace shard8::kernels {

/// Rows and columns of the tiles in which bf16 and FP8 matrices are decoded.
inline constexpr std::int64_t kProductTile = 1024;

/// Decodes tiles of one factor to fp32: its elements times the scales of their blocks. It keeps the last tile, so a
/// tile that is asked for twice in a row is decoded once.
class DecodedTile {
 public:
  /// `scale` multiplies every element of a matrix without block scales. The scale_inv of Scaling::tensor is not applied
  /// here. `memory` must hold the largest tile.
  DecodedTile(const Factor& factor, float scale, float* memory) : factor_(factor), scale_(scale), memory_(memory) {}

  /// Rows [i, i + ni) and columns [j, j + nj) of op(factor), in `memory`. Valid until the next call.
  BlasOperand get(const tensor::Exec& exec, std::int64_t i, std::int64_t ni, std::int64_t j, std::int64_t nj);

 private:
  /// A tile of the matrix as stored.
  struct Box {
    std::int64_t row = -1, rows = 0, col = -1, cols = 0;
    bool operator==(const Box&) const = default;
  };

  template <class T>
  void decode(const tensor::Exec& exec) const;
  template <class T>
  void decode_whole(const tensor::Exec& exec) const;
  template <class T, class Scale, int kWidth>
  void decode_blocks(const tensor::Exec& exec) const;
  template <class T, class Line>
  void decode_lines(const tensor::Exec& exec, const Line& line) const;

  Factor factor_;
  float scale_;
  float* memory_;
  Box held_;
};

}  // namespace shard8::kernels
