// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "tensor/tensor.hpp"

namespace shard8::tensor {

/// A tensor whose sum its reader computes: Σ of tensors of one shape and dtype, added in fp32 in their order, and
/// rounded once to the dtype. With one summand it is that tensor. A kernel that reads summands saves the memory traffic
/// of writing and reading their sum.
class Summands {
 public:
  static constexpr int kMost = 5;  ///< as many as four ranks and a residual give

  Summands() = default;
  Summands(const Tensor& only) : of_{only}, count_(1) {}  // NOLINT: every tensor is a sum of one summand
  /// Error(failed) above kMost, or if the tensor is not as the first one.
  void add(const Tensor& t) {
    SHARD8_REQUIRE(count_ < kMost && (count_ == 0 || (t.shape == of_[0].shape && t.dtype == of_[0].dtype)),
                   "summand {} of {}: at most {} of one shape and dtype can be added", to_string(t.shape),
                   name_of(t.dtype), kMost);
    of_[static_cast<std::size_t>(count_++)] = t;
  }

  int count() const { return count_; }
  const Tensor& operator[](int i) const { return of_[static_cast<std::size_t>(i)]; }

 private:
  std::array<Tensor, kMost> of_;
  int count_ = 0;
};

/// A tensor that its first reader may still have to make: that reader writes the sum of `summands` to `sum`, which may
/// be one of them. From then on, and where the tensor is its only summand, all read `sum`.
struct PendingSum {
  Summands summands;
  Tensor sum;

  PendingSum(const Tensor& made) : summands(made), sum(made) {}  // NOLINT: every tensor is one that is made
  /// The sum of several summands. Error(failed) if there is only one, or if `to` is not as they are.
  PendingSum(const Summands& of, const Tensor& to) : summands(of), sum(to) {
    SHARD8_REQUIRE(of.count() > 1 && to.shape == of[0].shape && to.dtype == of[0].dtype,
                   "a sum of {} summands in {} of {}: several summands of its shape and dtype are needed", of.count(),
                   to_string(to.shape), name_of(to.dtype));
  }

  bool made() const { return summands.count() == 1; }
  /// Rows `first` … `first` + `rows` − 1.
  PendingSum slice(std::int64_t first, std::int64_t rows) const {
    if (made()) return sum.slice(first, rows);
    Summands parts;
    for (int k = 0; k < summands.count(); ++k) parts.add(summands[k].slice(first, rows));
    return {parts, sum.slice(first, rows)};
  }
};

}  // namespace shard8::tensor
