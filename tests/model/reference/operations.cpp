// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/model/reference/reference.hpp"

#include <cmath>
#include <numbers>
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

Var linear(Graph& graph, Var x, Var w, Var bias) {
  const std::int64_t tokens = x->value.rows, in = x->value.cols, out = w->value.rows;
  Matrix y(tokens, out);
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t n = 0; n < out; ++n) {
      double sum = bias != nullptr ? bias->value(n, 0) : 0;
      for (std::int64_t k = 0; k < in; ++k) sum += x->value(t, k) * w->value(n, k);
      y(t, n) = sum;
    }
  }
  const Var node = graph.leaf(std::move(y));
  node->backward = [=] {
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::int64_t n = 0; n < out; ++n) {
        const double dy = node->gradient(t, n);
        if (bias != nullptr) bias->gradient(n, 0) += dy;
        for (std::int64_t k = 0; k < in; ++k) {
          x->gradient(t, k) += dy * w->value(n, k);
          w->gradient(n, k) += dy * x->value(t, k);
        }
      }
    }
  };
  return node;
}

Var add(Graph& graph, Var a, Var b) {
  Matrix y = a->value;
  for (std::size_t i = 0; i < y.values.size(); ++i) y.values[i] += b->value.values[i];
  const Var node = graph.leaf(std::move(y));
  node->backward = [=] {
    for (std::size_t i = 0; i < node->gradient.values.size(); ++i) {
      a->gradient.values[i] += node->gradient.values[i];
      b->gradient.values[i] += node->gradient.values[i];
    }
  };
  return node;
}

namespace {

/// weight·(x − mean)·rstd + bias. Without a bias (RMSNorm) the mean is taken as zero.
Var normalise(Graph& graph, Var x, Var weight, Var bias, double eps) {
  const std::int64_t rows = x->value.rows, n = x->value.cols;
  const auto count = static_cast<double>(n);
  Matrix unit(rows, n), rstd(rows, 1), y(rows, n);
  for (std::int64_t r = 0; r < rows; ++r) {
    double mean = 0, square = 0;
    if (bias != nullptr)
      for (std::int64_t c = 0; c < n; ++c) mean += x->value(r, c) / count;
    for (std::int64_t c = 0; c < n; ++c) square += (x->value(r, c) - mean) * (x->value(r, c) - mean) / count;
    rstd(r, 0) = 1 / std::sqrt(square + eps);
    for (std::int64_t c = 0; c < n; ++c) {
      unit(r, c) = (x->value(r, c) - mean) * rstd(r, 0);
      y(r, c) = weight->value(c, 0) * unit(r, c) + (bias != nullptr ? bias->value(c, 0) : 0);
    }
  }
  const Var node = graph.leaf(std::move(y));
  node->backward = [=] {
    for (std::int64_t r = 0; r < rows; ++r) {
      double sum = 0, along = 0;  // Σ weight·dy and Σ weight·dy·unit
      for (std::int64_t c = 0; c < n; ++c) {
        const double dy = node->gradient(r, c);
        weight->gradient(c, 0) += dy * unit(r, c);
        if (bias != nullptr) bias->gradient(c, 0) += dy;
        sum += bias != nullptr ? weight->value(c, 0) * dy : 0;
        along += weight->value(c, 0) * dy * unit(r, c);
      }
      for (std::int64_t c = 0; c < n; ++c)
        x->gradient(r, c) +=
            rstd(r, 0) * (weight->value(c, 0) * node->gradient(r, c) - sum / count - unit(r, c) * along / count);
    }
  };
  return node;
}

}  // namespace

Var rmsnorm(Graph& graph, Var x, Var weight, double eps) { return normalise(graph, x, weight, nullptr, eps); }
Var layernorm(Graph& graph, Var x, Var weight, Var bias, double eps) { return normalise(graph, x, weight, bias, eps); }

Var head_norm(Graph& graph, Var x, Var weight, const HeadRange& heads, double eps) {
  const std::int64_t rows = x->value.rows, dim = heads.dim;
  const auto count = static_cast<double>(dim);
  Matrix y = x->value, rstd(rows, heads.count);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t h = 0; h < heads.count; ++h) {
      const std::int64_t first = (heads.first + h) * dim;
      double square = 0;
      for (std::int64_t i = 0; i < dim; ++i) square += x->value(r, first + i) * x->value(r, first + i) / count;
      rstd(r, h) = 1 / std::sqrt(square + eps);
      for (std::int64_t i = 0; i < dim; ++i) y(r, first + i) *= rstd(r, h) * weight->value(i, 0);
    }
  const Var node = graph.leaf(std::move(y));
  node->backward = [=] {
    Matrix dx = node->gradient;
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t h = 0; h < heads.count; ++h) {
        const std::int64_t first = (heads.first + h) * dim;
        double along = 0;
        for (std::int64_t i = 0; i < dim; ++i) {
          const double unit = x->value(r, first + i) * rstd(r, h), dy = node->gradient(r, first + i);
          weight->gradient(i, 0) += dy * unit;
          along += weight->value(i, 0) * dy * unit / count;
        }
        for (std::int64_t i = 0; i < dim; ++i)
          dx(r, first + i) = rstd(r, h) * (weight->value(i, 0) * node->gradient(r, first + i) -
                                           x->value(r, first + i) * rstd(r, h) * along);
      }
    for (std::size_t i = 0; i < dx.values.size(); ++i) x->gradient.values[i] += dx.values[i];
  };
  return node;
}

Var swiglu(Graph& graph, Var gate_up) {
  const std::int64_t rows = gate_up->value.rows, n = gate_up->value.cols / 2;
  const auto sigmoid = [](double g) { return 1 / (1 + std::exp(-g)); };
  Matrix y(rows, n);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < n; ++c) {
      const double g = gate_up->value(r, c);
      y(r, c) = g * sigmoid(g) * gate_up->value(r, n + c);
    }
  const Var node = graph.leaf(std::move(y));
  node->backward = [=] {
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < n; ++c) {
        const double g = gate_up->value(r, c), s = sigmoid(g), dy = node->gradient(r, c);
        gate_up->gradient(r, c) += dy * gate_up->value(r, n + c) * s * (1 + g * (1 - s));
        gate_up->gradient(r, n + c) += dy * g * s;
      }
  };
  return node;
}

Var gelu(Graph& graph, Var x) {
  const double k = std::sqrt(2 / std::numbers::pi), a = 0.044715;
  Matrix y = x->value;
  for (double& v : y.values) v = v / 2 * (1 + std::tanh(k * (v + a * v * v * v)));
  const Var node = graph.leaf(std::move(y));
  node->backward = [=] {
    for (std::size_t i = 0; i < x->value.values.size(); ++i) {
      const double v = x->value.values[i], t = std::tanh(k * (v + a * v * v * v));
      x->gradient.values[i] += node->gradient.values[i] * ((1 + t) / 2 + v / 2 * (1 - t * t) * k * (1 + 3 * a * v * v));
    }
  };
  return node;
}

Var rope(Graph& graph, Var x, std::int64_t rotated, std::int64_t dim, std::int64_t seq, double theta) {
  const std::int64_t half = dim / 2;
  const auto turn = [=](Matrix& out, const Matrix& in, double sign) {
    for (std::int64_t t = 0; t < in.rows; ++t)
      for (std::int64_t h = 0; h < rotated; ++h)
        for (std::int64_t i = 0; i < half; ++i) {
          const double angle =
              static_cast<double>(t % seq) * std::pow(theta, -2 * static_cast<double>(i) / static_cast<double>(dim));
          const double c = std::cos(angle), s = sign * std::sin(angle);
          const std::int64_t first = h * dim + i, second = first + half;
          out(t, first) = in(t, first) * c - in(t, second) * s;
          out(t, second) = in(t, second) * c + in(t, first) * s;
        }
  };
  Matrix y = x->value;
  turn(y, x->value, 1);
  const Var node = graph.leaf(std::move(y));
  node->backward = [=] {
    Matrix dx = node->gradient;
    turn(dx, node->gradient, -1);
    for (std::size_t i = 0; i < dx.values.size(); ++i) x->gradient.values[i] += dx.values[i];
  };
  return node;
}

Var embedding(Graph& graph, Var table, const std::vector<std::int32_t>& tokens) {
  const std::int64_t n = table->value.cols;
  Matrix y(static_cast<std::int64_t>(tokens.size()), n);
  for (std::int64_t t = 0; t < y.rows; ++t)
    for (std::int64_t c = 0; c < n; ++c) y(t, c) = table->value(tokens[static_cast<std::size_t>(t)], c);
  const Var node = graph.leaf(std::move(y));
  node->backward = [=] {
    for (std::int64_t t = 0; t < node->value.rows; ++t)
      for (std::int64_t c = 0; c < n; ++c)
        table->gradient(tokens[static_cast<std::size_t>(t)], c) += node->gradient(t, c);
  };
  return node;
}

Var positions(Graph& graph, Var x, Var table, std::int64_t seq) {
  Matrix y = x->value;
  for (std::int64_t t = 0; t < y.rows; ++t)
    for (std::int64_t c = 0; c < y.cols; ++c) y(t, c) += table->value(t % seq, c);
  const Var node = graph.leaf(std::move(y));
  node->backward = [=] {
    for (std::int64_t t = 0; t < node->value.rows; ++t)
      for (std::int64_t c = 0; c < node->value.cols; ++c) {
        x->gradient(t, c) += node->gradient(t, c);
        table->gradient(t % seq, c) += node->gradient(t, c);
      }
  };
  return node;
}

}  // namespace shard8::tests::reference
