// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/model/module.hpp"
#include "tests/support/compare.hpp"

namespace shard8::tests {

using tensor::DType;
using tensor::Tensor;

Matrix Module::rounding(const Matrix& m) const {
  // An element is a sum of terms that are as large as the tensor's elements, after up to ten operations. fp32: some
  // roundings of 2^-24 of the terms. With a recipe there are more roundings: models are larger, since they have to hold
  // blocks, and scales that are not powers of two round every number once more. bf16: each operation rounds to 2^-9.
  const double unit = dims.compute == DType::bf16 ? 16 * 0x1p-9 : (recipe.on() ? 128 : 32) * 0x1p-24;
  Matrix row(m.rows, 1), col(1, m.cols), allowed = m;
  double largest = 0;
  for (std::int64_t r = 0; r < m.rows; ++r)
    for (std::int64_t c = 0; c < m.cols; ++c) {
      const double x = std::abs(m(r, c));
      row(r, 0) = std::max(row(r, 0), x);
      col(0, c) = std::max(col(0, c), x);
      largest = std::max(largest, x);
    }
  // The size of an element's terms: the largest element of the tensor. If rows and columns differ in size on purpose,
  // it follows from the largest elements of the row and the column. In bf16 it is the smaller of these two: gradients
  // of queries and keys are small compared with those of values, but are differences of numbers that are not small.
  const auto size = [&](std::int64_t r, std::int64_t c) {
    if (!recipe.on() || m.cols == 1 || largest == 0) return largest;
    if (dims.compute == DType::bf16) return std::min(row(r, 0), col(0, c));
    return std::max(row(r, 0) * col(0, c) / largest, std::abs(m(r, c)));
  };
  for (std::int64_t r = 0; r < m.rows; ++r)
    for (std::int64_t c = 0; c < m.cols; ++c) allowed(r, c) = unit * size(r, c);
  return allowed;
}

testing::AssertionResult Module::close(const Matrix& got, const Matrix& want) const {
  const Matrix allowed = rounding(want);
  double worst = 0;
  std::size_t at = 0;
  for (std::size_t i = 0; i < want.values.size(); ++i) {
    const double error = std::abs(got.values.at(i) - want.values[i]);
    const double excess = error == 0 ? 0 : std::isnan(error) ? HUGE_VAL : error / allowed.values[i];
    if (excess <= worst) continue;
    worst = excess;
    at = i;
  }
  const double distance = relative_distance(got.values, want.values);
  // Each BLAS sums products in an order of its own: differences of up to 12.9 roundings in fp32 were measured, of a
  // gradient with 6 numbers.
  const double most = dims.compute == DType::bf16 ? 10 * 0x1p-9 : 16 * 0x1p-24;
  if (worst <= 1 && distance <= most) return testing::AssertionSuccess();
  const auto cols = static_cast<std::size_t>(want.cols);
  return testing::AssertionFailure() << "worst at (" << at / cols << ", " << at % cols << "): got "
                                     << digits(got.values[at]) << ", want " << digits(want.values[at]) << ", " << worst
                                     << " times what is allowed; on the whole " << distance << " away, " << most
                                     << " is allowed";
}

void Module::expect_close(const std::string& what, const Matrix& got, const Matrix& want) const {
  EXPECT_TRUE(close(got, want)) << what << " (" << want.rows << ", " << want.cols << ") in " << name_of(dims.compute)
                                << " on " << group.size() << " ranks";
}

void Module::expect_gradients(int unit, const std::vector<Tensor>& local, const std::vector<Var>& leaves) const {
  for (std::size_t p = 0; p < local.size(); ++p) {
    const auto& name = units_[static_cast<std::size_t>(unit)].parameters[p].name;
    expect_close("gradient of " + name, whole_gradient(unit, static_cast<int>(p), local[p]), leaves[p]->gradient);
  }
}

std::vector<Var> leaves_of(reference::Graph& graph, const Module& module, int unit) {
  std::vector<Var> leaves;
  for (const Matrix& m : module.whole_weights(unit)) leaves.push_back(graph.leaf(m));
  return leaves;
}

}  // namespace shard8::tests
