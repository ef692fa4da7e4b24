// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "tensor/tensor.hpp"

namespace shard8::tensor {

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
