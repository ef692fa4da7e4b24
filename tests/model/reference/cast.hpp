// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>

#include "tensor/operand.hpp"
#include "tests/model/reference/graph.hpp"

namespace shard8::tests::reference {

/// How a matrix is cast: the formulas of the recipes, block by block, in fp32.
struct CastRule {
  tensor::Scaling scaling = tensor::Scaling::tensor;
  tensor::DType dtype = tensor::DType::e4m3;
  bool power_of_2 = false;
  std::optional<float> scale{};  ///< of the whole matrix, where it is known before

  struct Factors {
    float scale, inverse;
  };
  /// Of a block with this amax; the inverse never falls as amax rises.
  Factors factors(double amax) const;
  /// The number of the format that x becomes.
  double round(double x) const;
};

/// A matrix in 8 bits: the numbers of the format, and beside each the inverse scale of its block.
struct Cast {
  Matrix codes, inverse;
  Matrix values() const;
};

/// Calls f(first row, end, first column, end) for every block of a matrix.
void for_each_block(tensor::Scaling scaling, std::int64_t rows, std::int64_t cols,
                    const std::function<void(std::int64_t, std::int64_t, std::int64_t, std::int64_t)>& f);

Cast cast(const Matrix& x, const CastRule& rule);

/// The values of both copies of a matrix, as products read them.
struct Operands {
  Matrix by_rows, by_columns;
};
using Casting = std::function<Operands(const Matrix&)>;

/// What a linear in 8 bits makes of its input, its weight and the gradient of its output.
struct LinearCasting {
  Casting input, weight, output_gradient;
};

/// x·wᵀ + bias as such a linear computes it: forward reads x and w by rows, the input's gradient dy
/// by rows and w by columns, the weight's dy and x by columns; the bias' gradient dy itself.
Var linear(Graph& graph, Var x, Var w, Var bias, const LinearCasting& casting);

}  // namespace shard8::tests::reference
