// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

namespace shard8::tests::reference {

/// (rows, cols) doubles, row-major.
struct Matrix {
  std::int64_t rows = 0, cols = 0;
  std::vector<double> values;

  Matrix() = default;
  Matrix(std::int64_t r, std::int64_t c, double value = 0)
      : rows(r), cols(c), values(static_cast<std::size_t>(r * c), value) {}
  double& operator()(std::int64_t r, std::int64_t c) { return values[static_cast<std::size_t>(r * cols + c)]; }
  double operator()(std::int64_t r, std::int64_t c) const { return values[static_cast<std::size_t>(r * cols + c)]; }

  Matrix column_range(std::int64_t first, std::int64_t n) const;
  Matrix row_range(std::int64_t first, std::int64_t n) const;
};

/// A result and, after Graph::backward, the gradient of the scalar with respect to it.
struct Node {
  Matrix value, gradient;
  std::function<void()> backward = [] {};
};
using Var = Node*;

/// Reverse-mode differentiation. The operations of operations.hpp append nodes in order, and backward() visits them in
/// reverse order. Owns the nodes.
class Graph {
 public:
  Var leaf(Matrix value);
  /// Adds the gradient of the scalar Σ seed·y to that of every node.
  void backward(Var y, const Matrix& seed);

 private:
  std::deque<Node> nodes_;
};

}  // namespace shard8::tests::reference
