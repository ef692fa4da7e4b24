// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/model/reference/reference.hpp"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <memory>

namespace shard8::tests::reference {

using tensor::DType;
using tensor::E4M3;
using tensor::E5M2;
using tensor::Scaling;

CastRule::Factors CastRule::factors(double amax) const {
  if (scale) return {*scale, 1.0f / *scale};
  const float largest = dtype == DType::e5m2 ? E5M2::kMax : E4M3::kMax;
  const auto a = static_cast<float>(amax);
  int exponent = 0;
  if (tensor::scale_dtype(scaling) == DType::e8m0) {
    const float fraction = std::frexp(a / largest, &exponent);
    if (fraction == 0.5f) --exponent;  // a power of two itself
    exponent = a == 0 ? -127 : std::clamp(exponent, -127, 127);
    return {std::ldexp(1.0f, -exponent), std::ldexp(1.0f, exponent)};
  }
  float factor = a == 0 || !std::isfinite(a) ? 1.0f : largest / a;
  if (std::isinf(factor)) factor = FLT_MAX;
  if (power_of_2) {
    std::frexp(factor, &exponent);
    factor = std::ldexp(1.0f, exponent - 1);
  }
  return {factor, 1.0f / factor};
}

double CastRule::round(double x) const {
  const auto f = static_cast<float>(x);
  return static_cast<double>(dtype == DType::e5m2 ? static_cast<float>(E5M2(f)) : static_cast<float>(E4M3(f)));
}

Matrix Cast::values() const {
  Matrix m = codes;
  for (std::size_t i = 0; i < m.values.size(); ++i) m.values[i] *= inverse.values[i];
  return m;
}

void for_each_block(Scaling scaling, std::int64_t rows, std::int64_t cols,
                    const std::function<void(std::int64_t, std::int64_t, std::int64_t, std::int64_t)>& f) {
  const bool whole = scaling == Scaling::tensor;
  const std::int64_t height = whole ? rows : tensor::block_rows(scaling);
  const std::int64_t width = whole ? cols : tensor::block_cols(scaling);
  for (std::int64_t r = 0; r < rows; r += height)
    for (std::int64_t c = 0; c < cols; c += width) f(r, r + height, c, c + width);
}

Cast cast(const Matrix& x, const CastRule& rule) {
  Cast out{x, x};
  for_each_block(rule.scaling, x.rows, x.cols, [&](std::int64_t r0, std::int64_t r1, std::int64_t c0, std::int64_t c1) {
    double amax = 0;
    for (std::int64_t r = r0; r < r1; ++r)
      for (std::int64_t c = c0; c < c1; ++c) amax = std::max(amax, std::abs(x(r, c)));
    const auto [scale, inverse] = rule.factors(amax);
    for (std::int64_t r = r0; r < r1; ++r)
      for (std::int64_t c = c0; c < c1; ++c) {
        out.codes(r, c) = rule.round(static_cast<double>(static_cast<float>(x(r, c)) * scale));
        out.inverse(r, c) = static_cast<double>(inverse);
      }
  });
  return out;
}

namespace {

/// out (R, C) += a (R, K)·b (K, C), one row of b after the other.
void add_product(Matrix& out, const Matrix& a, const Matrix& b) {
  for (std::int64_t r = 0; r < a.rows; ++r)
    for (std::int64_t k = 0; k < a.cols; ++k) {
      const double factor = a(r, k);
      const double* const from = &b.values[static_cast<std::size_t>(k * b.cols)];
      double* const to = &out.values[static_cast<std::size_t>(r * out.cols)];
      for (std::int64_t c = 0; c < b.cols; ++c) to[c] += factor * from[c];
    }
}

Matrix transposed(const Matrix& m) {
  Matrix t(m.cols, m.rows);
  for (std::int64_t r = 0; r < m.rows; ++r)
    for (std::int64_t c = 0; c < m.cols; ++c) t(c, r) = m(r, c);
  return t;
}

}  // namespace

Var linear(Graph& graph, Var x, Var w, Var bias, const LinearCasting& casting) {
  const auto input = std::make_shared<Operands>(casting.input(x->value));
  const auto weight = std::make_shared<Operands>(casting.weight(w->value));
  Matrix y(x->value.rows, w->value.rows);
  if (bias != nullptr)
    for (std::int64_t t = 0; t < y.rows; ++t)
      for (std::int64_t n = 0; n < y.cols; ++n) y(t, n) = bias->value(n, 0);
  add_product(y, input->rowwise, transposed(weight->rowwise));
  const Var node = graph.leaf(std::move(y));
  node->backward = [=, gradient = casting.output_gradient] {
    const Operands dy = gradient(node->gradient);
    add_product(x->gradient, dy.rowwise, weight->columnwise);
    add_product(w->gradient, transposed(dy.columnwise), input->columnwise);
    if (bias == nullptr) return;
    for (std::int64_t t = 0; t < node->gradient.rows; ++t)
      for (std::int64_t n = 0; n < node->gradient.cols; ++n) bias->gradient(n, 0) += node->gradient(t, n);
  };
  return node;
}

}  // namespace shard8::tests::reference
