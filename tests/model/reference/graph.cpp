// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/model/reference/graph.hpp"

#include <utility>

namespace shard8::tests::reference {

Matrix Matrix::column_range(std::int64_t first, std::int64_t n) const {
  Matrix part(rows, n);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < n; ++c) part(r, c) = (*this)(r, first + c);
  return part;
}

Matrix Matrix::row_range(std::int64_t first, std::int64_t n) const {
  Matrix part(n, cols);
  for (std::int64_t r = 0; r < n; ++r)
    for (std::int64_t c = 0; c < cols; ++c) part(r, c) = (*this)(first + r, c);
  return part;
}

Var Graph::leaf(Matrix value) {
  Node& node = nodes_.emplace_back();
  node.gradient = Matrix(value.rows, value.cols);
  node.value = std::move(value);
  return &node;
}

void Graph::backward(Var y, const Matrix& seed) {
  for (std::size_t i = 0; i < seed.values.size(); ++i) y->gradient.values[i] += seed.values[i];
  for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) node->backward();
}

}  // namespace shard8::tests::reference
