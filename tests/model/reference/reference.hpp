// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "deck/config.hpp"
#include "fp8/scaling_state.hpp"
#include "tensor/operand.hpp"

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

/// Reverse-mode differentiation. The operations below append nodes in order, and backward() visits them in
/// reverse order. Owns the nodes.
class Graph {
 public:
  Var leaf(Matrix value);
  /// Adds the gradient of the scalar Σ seed·y to that of every node.
  void backward(Var y, const Matrix& seed);

 private:
  std::deque<Node> nodes_;
};

/// x·wᵀ + bias; x (T, K), w (N, K), bias (N, 1) or null.
Var linear(Graph& graph, Var x, Var w, Var bias);
Var add(Graph& graph, Var a, Var b);

/// weight·x/sqrt(mean(x²) + eps) of each row; weight (H, 1).
Var rmsnorm(Graph& graph, Var x, Var weight, double eps);
/// weight·(x − mean)/sqrt(var + eps) + bias of each row; weight, bias (H, 1).
Var layernorm(Graph& graph, Var x, Var weight, Var bias, double eps);

/// Some of the heads of a row, each `dim` wide.
struct HeadRange {
  std::int64_t first = 0, count = 0, dim = 0;
};
/// rmsnorm of each head of the range in each row; weight (dim, 1). Other columns stay as they are.
Var head_norm(Graph& graph, Var x, Var weight, const HeadRange& heads, double eps);

/// silu(gate)·up of rows [gate | up].
Var swiglu(Graph& graph, Var gate_up);
/// x/2·(1 + tanh(sqrt(2/π)·(x + 0.044715·x³))).
Var gelu(Graph& graph, Var x);

/// Rotary position embedding, halves (x1, x2) of each of the first `rotated` heads of width `dim`.
Var rope(Graph& graph, Var x, std::int64_t rotated, std::int64_t dim, std::int64_t seq, double theta);

struct Heads {
  std::int64_t queries = 0, keys = 0, dim = 0, seq = 0;
};
/// Causal softmax(q·kᵀ/sqrt(dim))·v of rows [q heads | k heads | v heads], sequence by sequence.
Var attention(Graph& graph, Var qkv, const Heads& heads);

/// For every t row tokens[t] of the table.
Var embedding(Graph& graph, Var table, const std::vector<std::int32_t>& tokens);
/// x + table's row t mod seq.
Var positions(Graph& graph, Var x, Var table, std::int64_t seq);

/// (1, 1): Σ_t weight_t·(−log softmax(x_t·headᵀ)[target_t]); keeps no logits.
Var head_loss(Graph& graph, Var x, Var head, const std::vector<std::int32_t>& targets,
              const std::vector<double>& weights);

struct Affine {
  Var weight = nullptr, bias = nullptr;
};

/// The parameters of a transformer layer, from those of its unit in the order of model::make_units.
struct Layer {
  Affine norm1, qkv, proj, norm2, fc1, fc2;
  Var q_norm = nullptr, k_norm = nullptr;  ///< null: queries and keys are not normalised
  static Layer bind(const deck::ModelConfig& model, const std::vector<Var>& v);
};

/// How a linear of the layer is computed: in plain arithmetic, or with the casts of a recipe.
using LinearOperation = std::function<Var(Graph&, Var x, const Affine& w, fp8::Linear which)>;
Var plain_linear(Graph& graph, Var x, const Affine& w, fp8::Linear which);

Var norm(Graph& graph, const deck::ModelConfig& model, Var x, const Affine& w);
Var layernorm_linear(Graph& graph, const deck::ModelConfig& model, Var x, const Affine& norm_w, const Affine& linear_w,
                     fp8::Linear which = fp8::Linear::qkv, const LinearOperation& linear = plain_linear);
Var multihead_attention(Graph& graph, const deck::ModelConfig& model, Var x, const Layer& w,
                        const LinearOperation& linear = plain_linear);
Var layernorm_mlp(Graph& graph, const deck::ModelConfig& model, Var x, const Layer& w,
                  const LinearOperation& linear = plain_linear);

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
