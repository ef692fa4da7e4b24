// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "tests/model/reference/reference.hpp"

// Compares the reference's gradients with finite differences of the reference's results.

namespace shard8::tests::reference {
namespace {

Matrix normal(std::int64_t rows, std::int64_t cols, unsigned seed) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> draw;
  Matrix m(rows, cols);
  for (double& v : m.values) v = draw(engine);
  return m;
}

using Operation = std::function<Var(Graph&, const std::vector<Var>&)>;

double weighted(const Operation& operation, const std::vector<Matrix>& inputs, const Matrix& seed) {
  Graph graph;
  std::vector<Var> leaves;
  for (const Matrix& m : inputs) leaves.push_back(graph.leaf(m));
  const Var y = operation(graph, leaves);
  double sum = 0;
  for (std::size_t i = 0; i < seed.values.size(); ++i) sum += seed.values[i] * y->value.values[i];
  return sum;
}

void check(const char* name, const Operation& operation, std::vector<Matrix> inputs) {
  Graph graph;
  std::vector<Var> leaves;
  for (const Matrix& m : inputs) leaves.push_back(graph.leaf(m));
  const Var y = operation(graph, leaves);
  const Matrix seed = normal(y->value.rows, y->value.cols, 99);
  graph.backward(y, seed);
  // Errors of central differences: h²/6·f''' ~ 1e-9 from the step, and 1e-16·f/h ~ 1e-10 from rounding.
  constexpr double kStep = 1e-5;
  for (std::size_t l = 0; l < inputs.size(); ++l)
    for (std::size_t i = 0; i < inputs[l].values.size(); ++i) {
      const double at = inputs[l].values[i];
      inputs[l].values[i] = at + kStep;
      const double above = weighted(operation, inputs, seed);
      inputs[l].values[i] = at - kStep;
      const double below = weighted(operation, inputs, seed);
      inputs[l].values[i] = at;
      ASSERT_NEAR(leaves[l]->gradient.values[i], (above - below) / (2 * kStep), 2e-8)
          << name << ", input " << l << ", element " << i;
    }
}

TEST(Reference, GradientsAreThoseOfFiniteDifferences) {
  const auto x = normal(6, 8, 1), w = normal(5, 8, 2), b = normal(5, 1, 3), g = normal(8, 1, 4), h = normal(8, 1, 5);
  check("linear", [](Graph& f, const auto& v) { return linear(f, v[0], v[1], v[2]); }, {x, w, b});
  const Casting same = [](const Matrix& m) { return Operands{m, m}; };
  check("linear with casts that change nothing",
        [&](Graph& f, const auto& v) {
          return linear(f, v[0], v[1], v[2], {same, same, same});
        },
        {x, w, b});
  check("linear without bias", [](Graph& f, const auto& v) { return linear(f, v[0], v[1], nullptr); }, {x, w});
  check("add", [](Graph& f, const auto& v) { return add(f, v[0], v[1]); }, {x, normal(6, 8, 6)});
  check("add itself", [](Graph& f, const auto& v) { return add(f, v[0], v[0]); }, {x});
  check("rmsnorm", [](Graph& f, const auto& v) { return rmsnorm(f, v[0], v[1], 1e-2); }, {x, g});
  check("layernorm", [](Graph& f, const auto& v) { return layernorm(f, v[0], v[1], v[2], 1e-2); }, {x, g, h});
  check("swiglu", [](Graph& f, const auto& v) { return swiglu(f, v[0]); }, {x});
  check("gelu", [](Graph& f, const auto& v) { return gelu(f, v[0]); }, {x});
  check("rope", [](Graph& f, const auto& v) { return rope(f, v[0], 1, 4, 3, 100); }, {x});
  check("attention", [](Graph& f, const auto& v) { return attention(f, v[0], {4, 2, 2, 3}); }, {normal(6, 16, 7)});
  const std::vector<std::int32_t> tokens{0, 4, 4, 2, 1, 4};
  check("embedding", [&](Graph& f, const auto& v) { return embedding(f, v[0], tokens); }, {w});
  check("positions", [](Graph& f, const auto& v) { return positions(f, v[0], v[1], 3); }, {x, normal(3, 8, 8)});
  check("head_loss",
        [&](Graph& f, const auto& v) {
          return head_loss(f, v[0], v[1], tokens, {1, 1, 0, 2, 1, 1});
        },
        {x, w});
}

/// x·wᵀ with 2 tokens, 1 input and 1 output. Each copy is the value times another number, so results show which was
/// read.
TEST(Reference, EachProductOfALinearReadsItsCopies) {
  const auto times = [](double rows, double columns) -> Casting {
    return [=](const Matrix& m) {
      Operands copies{m, m};
      for (double& v : copies.rowwise.values) v *= rows;
      for (double& v : copies.columnwise.values) v *= columns;
      return copies;
    };
  };
  Graph graph;
  Matrix tokens(2, 1);
  tokens.values = {1, 10};
  const Var x = graph.leaf(tokens), w = graph.leaf(Matrix(1, 1, 3)), bias = graph.leaf(Matrix(1, 1, 0.5));
  const Var y = linear(graph, x, w, bias, {times(2, 3), times(5, 7), times(11, 13)});
  Matrix dy(2, 1);
  dy.values = {1, 4};
  graph.backward(y, dy);
  EXPECT_EQ(y->value(1, 0), (10 * 2) * (3 * 5) + 0.5);
  EXPECT_EQ(x->gradient(1, 0), (4 * 11) * (3 * 7));
  EXPECT_EQ(w->gradient(0, 0), (1 * 13) * (1 * 3) + (4 * 13) * (10 * 3));
  EXPECT_EQ(bias->gradient(0, 0), 5);
}

TEST(Reference, CastsAreThoseOfTheFormulas) {
  using tensor::DType;
  using tensor::Scaling;
  Matrix x(128, 128);
  x(0, 0) = -7;
  x(0, 1) = 0.1;
  x(0, 127) = 3;
  x(127, 0) = 1000;
  // One scale for the matrix, 0.448: −7 becomes −3.136, which rounds to −3.25 in steps of a quarter.
  const Cast whole = cast(x, {Scaling::tensor, DType::e4m3, false, {}});
  EXPECT_EQ(whole.codes(127, 0), 448);
  EXPECT_EQ(whole.codes(0, 0), -3.25);
  EXPECT_EQ(whole.inverse(0, 0), static_cast<double>(1.0f / 0.448f));
  EXPECT_EQ(cast(x, {Scaling::tensor, DType::e5m2, true, {}}).inverse(0, 0), 1.0 / 32);  // 57.344 -> 32
  // Rowwise: 448/7 = 64. Columnwise: the scale of the column with 1000, and the scale of the column with 0.1 alone.
  const Cast rows = cast(x, {Scaling::row_128, DType::e4m3, false, {}});
  EXPECT_EQ(rows.inverse(0, 5), 1.0 / 64);
  EXPECT_EQ(rows.codes(0, 1), 6.5);
  EXPECT_EQ(rows.inverse(5, 5), 1) << "of zeros alone";
  const Cast columns = cast(x, {Scaling::column_128, DType::e4m3, true, {}});
  EXPECT_EQ(columns.inverse(0, 0), 4);  // 0.448 -> 1/4
  EXPECT_EQ(columns.inverse(77, 1), 1.0 / 4096);
  EXPECT_EQ(cast(x, {Scaling::tile_128, DType::e4m3, true, {}}).inverse(127, 127), 4);
  // 32-wide: 7/448 = 2^-6 itself; 3/448 up to 2^-7; 1000/448 up to 4.
  const Cast narrow = cast(x, {Scaling::row_32, DType::e4m3, true, {}});
  EXPECT_EQ(narrow.inverse(0, 31), 1.0 / 64);
  EXPECT_EQ(narrow.inverse(0, 96), 1.0 / 128);
  EXPECT_EQ(narrow.inverse(127, 0), 4);
  EXPECT_EQ(cast(x, {Scaling::column_32, DType::e4m3, true, {}}).inverse(95, 0), 0x1p-127) << "of zeros alone";
  // With a scale known before, values that have grown saturate.
  const Cast known = cast(x, {Scaling::tensor, DType::e4m3, false, 2.0f});
  EXPECT_EQ(known.codes(127, 0), 448);
  EXPECT_EQ(known.values()(127, 0), 224);
  EXPECT_EQ(known.values()(0, 0), -7);
}

// One value of each operation, found by hand or from the operation's definition.
TEST(Reference, ValuesAreThoseOfTheDefinitions) {
  Graph graph;
  Matrix one(1, 2);
  one.values = {3, 4};
  const Var x = graph.leaf(one);
  const Var ones = graph.leaf(Matrix(2, 1, 1)), zeros = graph.leaf(Matrix(2, 1, 0));
  EXPECT_NEAR(rmsnorm(graph, x, ones, 0)->value(0, 0), 3 / std::sqrt(12.5), 1e-15);
  EXPECT_NEAR(layernorm(graph, x, ones, zeros, 0)->value(0, 1), 1, 1e-15);
  EXPECT_NEAR(swiglu(graph, x)->value(0, 0), 3 / (1 + std::exp(-3)) * 4, 1e-14);
  EXPECT_NEAR(gelu(graph, graph.leaf(Matrix(1, 1, 1)))->value(0, 0), 0.841192, 1e-6);
  const Var turned = rope(graph, graph.leaf(Matrix(2, 2, 1)), 1, 2, 2, 10000);
  EXPECT_EQ(turned->value(0, 0), 1);
  EXPECT_NEAR(turned->value(1, 0), std::cos(1) - std::sin(1), 1e-15);
  EXPECT_NEAR(turned->value(1, 1), std::cos(1) + std::sin(1), 1e-15);
  // The first token attends to itself alone.
  const Var qkv = graph.leaf(normal(2, 3, 11));
  EXPECT_EQ(attention(graph, qkv, {1, 1, 1, 2})->value(0, 0), qkv->value(0, 2));
  const Var equal = graph.leaf(Matrix(4, 2, 0.5));
  EXPECT_NEAR(head_loss(graph, x, equal, {3}, {2})->value(0, 0), 2 * std::log(4), 1e-14);
}

}  // namespace
}  // namespace shard8::tests::reference
