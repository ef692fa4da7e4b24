// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/host/decoded_tile.hpp"

#include <algorithm>

#include "kernels/kokkos/loops.hpp"

namespace shard8::kernels {
namespace {

using tensor::BFloat16;
using tensor::E4M3;
using tensor::E5M2;
using tensor::E8M0;
using tensor::Scaling;

/// out = in · scale, for n elements in a row.
template <class T>
inline void decode_block(const Team& team, float* out, const T* in, float scale, std::int64_t n) {
  row_for(team, n, [=](std::int64_t i) { out[i] = static_cast<float>(in[i]) * scale; });
}

}  // namespace

/// Calls line(team, out, in, row) for every row of the tile; `row` counts from the first row of the matrix.
template <class T, class Line>
void DecodedTile::decode_lines(const Exec& exec, const Line& line) const {
  const std::int64_t stride = factor_.matrix.cols(), first = held_.row, cols = held_.cols;
  const T* from = factor_.matrix.data.as<T>() + first * stride + held_.col;
  for_rows(exec, "shard8::kernels::gemm_decode", held_.rows, [=, to = memory_](const Team& team, std::int64_t row) {
    line(team, to + row * cols, from + row * stride, first + row);
  });
}

template <class T>
void DecodedTile::decode_whole(const Exec& exec) const {
  const std::int64_t cols = held_.cols;
  if (scale_ == 1.0f) {
    decode_lines<T>(exec, [=](const Team& team, float* out, const T* in, std::int64_t) {
      row_for(team, cols, [=](std::int64_t c) { out[c] = static_cast<float>(in[c]); });
    });
  } else {
    decode_lines<T>(exec, [=, scale = scale_](const Team& team, float* out, const T* in, std::int64_t) {
      decode_block(team, out, in, scale, cols);
    });
  }
}

/// Decodes blocks of kWidth columns. A tile may begin and end inside a block.
template <class T, class Scale, int kWidth>
void DecodedTile::decode_blocks(const Exec& exec) const {
  const tensor::Operand& m = factor_.matrix;
  const Scale* scales = m.scale_inv.as<Scale>();
  const std::int64_t height = block_rows(m.scaling), per_row = m.cols() / kWidth;
  const std::int64_t first = held_.col, cols = held_.cols;
  decode_lines<T>(exec, [=](const Team& team, float* out, const T* in, std::int64_t row) {
    const Scale* scale = scales + row / height * per_row;
    if constexpr (kWidth == 1) {
      row_for(team, cols, [=, scale = scale + first](std::int64_t c) {
        out[c] = static_cast<float>(in[c]) * static_cast<float>(scale[c]);
      });
    } else {
      for (std::int64_t c = 0; c < cols;) {
        const std::int64_t n = std::min(kWidth - (first + c) % kWidth, cols - c);
        const auto s = static_cast<float>(scale[(first + c) / kWidth]);
        if (n == kWidth) {
          decode_block(team, out + c, in + c, s, kWidth);  // a length that the compiler knows
        } else {
          decode_block(team, out + c, in + c, s, n);
        }
        c += n;
      }
    }
  });
}

template <class T>
void DecodedTile::decode(const Exec& exec) const {
  switch (factor_.matrix.scaling) {
    case Scaling::none:
    case Scaling::tensor:
      return decode_whole<T>(exec);
    case Scaling::row_128:
    case Scaling::tile_128:
      return decode_blocks<T, float, 128>(exec);
    case Scaling::column_128:
      return decode_blocks<T, float, 1>(exec);
    case Scaling::row_32:
      return decode_blocks<T, E8M0, 32>(exec);
    case Scaling::column_32:
      return decode_blocks<T, E8M0, 1>(exec);
  }
}

BlasOperand DecodedTile::get(const Exec& exec, std::int64_t i, std::int64_t ni, std::int64_t j, std::int64_t nj) {
  const Box box = factor_.transposed ? Box{j, nj, i, ni} : Box{i, ni, j, nj};
  if (box != held_) {
    held_ = box;
    switch (factor_.matrix.data.dtype) {
      case tensor::DType::e4m3:
        decode<E4M3>(exec);
        break;
      case tensor::DType::e5m2:
        decode<E5M2>(exec);
        break;
      default:
        decode_whole<BFloat16>(exec);
    }
  }
  return {memory_, box.cols, factor_.transposed};
}

}  // namespace shard8::kernels
