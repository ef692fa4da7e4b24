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

}  // namespace shard8::tests::reference
