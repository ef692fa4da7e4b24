// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>

#include "tensor/operand.hpp"
#include "tests/model/reference/operations.hpp"

namespace shard8::tests::reference {

/// How a matrix is cast: the formulas of the recipes, block by block, in fp32.
struct CastRule {
  tensor::Scaling scaling = tensor::Scaling::tensor;
  tensor::DType dtype = tensor::DType::e4m3;
  bool power_of_2 = false;
  std::optional<float> scale{};  ///< the scale of the whole matrix, if it is known before the cast

  struct Factors {
    float scale, inverse;
  };
  /// Scale and inverse scale of a block with this amax. A larger amax never gives a smaller inverse scale.
  Factors factors(double amax) const;
  /// x rounded to a number of the format.
  double round(double x) const;
};

/// A matrix in FP8: its numbers in the format, and for each of them the inverse scale of its block. Both (R, C).
struct Cast {
  Matrix codes, inverse;
  Matrix values() const;
};

/// Calls f(first row, end, first column, end) for every block of a matrix.
void for_each_block(tensor::Scaling scaling, std::int64_t rows, std::int64_t cols,
                    const std::function<void(std::int64_t, std::int64_t, std::int64_t, std::int64_t)>& f);

Cast cast(const Matrix& x, const CastRule& rule);

/// The values of both copies of a matrix, as products read them: decoded and multiplied by the inverse scales.
struct Operands {
  Matrix rowwise, columnwise;
};
using Casting = std::function<Operands(const Matrix&)>;

/// How a linear in FP8 casts its input, its weight and the gradient of its output.
struct LinearCasting {
  Casting input, weight, output_gradient;
};

/// x·wᵀ + bias as a linear in FP8 computes it. Forward reads x and w rowwise. The gradient of x is computed from
/// rowwise dy and columnwise w, the gradient of w from columnwise dy and x, and the gradient of the bias from the plain
/// dy.
Var linear(Graph& graph, Var x, Var w, Var bias, const LinearCasting& casting);

}  // namespace shard8::tests::reference
