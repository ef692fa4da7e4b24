// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "tensor/tensor.hpp"

namespace shard8::tensor {

/// Which elements of an FP8 matrix (R, C) share an inverse scale, and the shape of scale_inv.
enum class Scaling : std::uint8_t {
  none,        ///< a plain fp32 or bf16 matrix without scales
  tensor,      ///< one scale for the whole matrix: (1) fp32
  row_128,     ///< 1×128 blocks: (R, C/128) fp32
  column_128,  ///< 128×1 blocks: (R/128, C) fp32
  tile_128,    ///< 128×128 blocks: (R/128, C/128) fp32
  row_32,      ///< 1×32 blocks: (R, C/32) e8m0
  column_32,   ///< 32×1 blocks: (R/32, C) e8m0
};

/// A matrix (R, C) as a product reads it: element (r, c) is data(r, c) times the inverse scale of its block, times the
/// inverse scale of the matrix if there is a second level.
struct Operand {
  Tensor data;       ///< (R, C): fp32 or bf16, or e4m3 or e5m2 with scales
  Tensor scale_inv;  ///< inverse scales, laid out for (R, C) even if data is transposed; empty for Scaling::none
  /// Second level of inverse scales: one for the whole matrix, in the memory of `data`. Null: there is one level. No
  /// product reads a second level yet.
  const float* matrix_scale_inv = nullptr;
  Scaling scaling = Scaling::none;
  /// Whether data is stored transposed, as (C, R): element (r, c) of the matrix is then data(c, r). Allowed only for
  /// e4m3 and e5m2, on devices, where products read such operands only with the summed dimension contiguous.
  bool transposed = false;

  Operand() = default;
  Operand(const Tensor& plain) : data(plain) {}  // NOLINT: a plain matrix is an operand
  Operand(const Tensor& values, const Tensor& inverse_scales, Scaling how)
      : data(values), scale_inv(inverse_scales), scaling(how) {}

  bool empty() const { return data.empty(); }
  /// R and C, however data is stored.
  std::int64_t rows() const { return transposed ? data.cols() : data.rows(); }
  std::int64_t cols() const { return transposed ? data.rows() : data.cols(); }
  /// Rows first … first + count − 1, in the same memory: whole blocks of rows of an operand that is not transposed,
  /// else Error(failed).
  Operand slice(std::int64_t first, std::int64_t count) const;
};

/// The shape of scale_inv for a matrix (rows, cols); (0) for Scaling::none. Throws Error(failed) if rows or cols are
/// not whole blocks.
Shape scale_shape(Scaling scaling, std::int64_t rows, std::int64_t cols);
/// The dtype of scale_inv: e8m0 for blocks of 32, else fp32.
DType scale_dtype(Scaling scaling);
/// Rows and columns of a block; 1 for Scaling::none and Scaling::tensor.
std::int64_t block_rows(Scaling scaling);
std::int64_t block_cols(Scaling scaling);
/// Bytes of the inverse scales of a matrix of `elements` elements, which must be whole blocks.
std::int64_t scale_bytes(Scaling scaling, std::int64_t elements);
/// Name for messages: "none", "tensor", "1x128", "128x1", ...
std::string_view name_of(Scaling scaling);

/// Partial sums of a tensor, which its reader adds: tensors of one shape and dtype, added in fp32 in their order and
/// rounded once to the dtype. One partial sum alone is the tensor itself. A kernel that reads partial sums saves the
/// memory traffic of writing and reading their sum.
class PartialSums {
 public:
  static constexpr int kMost = 5;  ///< as many as four ranks and a residual give

  PartialSums() = default;
  PartialSums(const Tensor& only) : first_(only), count_(1) {  // NOLINT: every tensor is a sum of one partial sum
    data_[0] = only.data;
  }
  /// Error(failed) above kMost, or if the tensor is not as the first one.
  void add(const Tensor& t) {
    SHARD8_REQUIRE(count_ < kMost && (count_ == 0 || (t.shape == first_.shape && t.dtype == first_.dtype)),
                   "partial sum {} of {}: at most {} of one shape and dtype can be added", to_string(t.shape),
                   name_of(t.dtype), kMost);
    if (count_ == 0) first_ = t;
    data_[static_cast<std::size_t>(count_++)] = t.data;
  }

  int count() const { return count_; }
  Tensor operator[](int i) const {
    Tensor t = first_;
    t.data = data_[static_cast<std::size_t>(i)];
    return t;
  }

 private:
  Tensor first_;  ///< the others have its shape and dtype
  std::array<std::byte*, kMost> data_{};
  int count_ = 0;
};

/// A tensor that may still be partial sums: its first reader then adds `partial_sums` and writes the result to `sum`,
/// which may be one of them. From then on, and where there is only one partial sum, all read `sum`.
struct SumOfPartials {
  PartialSums partial_sums;
  Tensor sum;

  SumOfPartials(const Tensor& made) : partial_sums(made), sum(made) {}  // NOLINT: every tensor is the sum of itself
  /// The sum of several partial sums. Error(failed) if there is only one, or if `to` is not as they are.
  SumOfPartials(const PartialSums& of, const Tensor& to) : partial_sums(of), sum(to) {
    SHARD8_REQUIRE(of.count() > 1 && to.shape == of[0].shape && to.dtype == of[0].dtype,
                   "a sum of {} partial sums in {} of {}: several partial sums of its shape and dtype are needed",
                   of.count(), to_string(to.shape), name_of(to.dtype));
  }

  bool made() const { return partial_sums.count() == 1; }
  /// Rows `first` … `first` + `rows` − 1.
  SumOfPartials slice(std::int64_t first, std::int64_t rows) const {
    if (made()) return sum.slice(first, rows);
    PartialSums parts;
    for (int k = 0; k < partial_sums.count(); ++k) parts.add(partial_sums[k].slice(first, rows));
    return {parts, sum.slice(first, rows)};
  }
};

}  // namespace shard8::tensor
