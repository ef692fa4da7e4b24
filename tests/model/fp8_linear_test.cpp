// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <cmath>

#include "tests/model/fp8_module.hpp"
#include "tests/model/reference/reference.hpp"
#include "tests/support/compare.hpp"

// Single linears. Their inputs are given, so the reference casts exactly what they cast; a reference with a fault
// differs.

namespace shard8 {
namespace {

using fp8::Linear;
using fp8::Role;
using tensor::Tensor;
using tests::Fp8Module;
using tests::Fp8Setting;
using tests::Matrix;
using tests::Module;
using tests::reference::Casting;
using tests::reference::LinearCasting;
using tests::reference::Operands;

constexpr int kLayer = Fp8Module::kLayer;

/// A linear's inputs, and the results of the reference; whole matrices.
struct Given {
  Matrix x, dy, residual, w, bias;
};
struct Expected {
  Matrix y, dx, dw, dbias;
};
/// This rank's results.
struct Fp8Results {
  Tensor y, dx;
  model::Affine sum;
};

Given given(const Fp8Module& m, Linear linear, unsigned seed) {
  const auto p = static_cast<std::size_t>(m.weight_of(linear));
  const auto& whole = m.whole_weights(kLayer);
  const Matrix& w = whole[p];
  // Rows and columns differ much in size, in such a way that the terms of every sum have about the same size.
  Matrix x = Module::widened(m.random(m.dims.tokens(), w.cols, seed), -1, 0);
  for (std::int64_t r = 0; r < x.rows; ++r)
    for (std::int64_t c = 0; c < x.cols; ++c) x(r, c) *= Module::wide(linear == Linear::proj ? c % m.dims.head_dim : c);
  return {std::move(x), Module::widened(m.random(m.dims.tokens(), w.rows, seed + 1), 1, 0),
          m.random(m.dims.tokens(), w.rows, seed + 2), w, m.dims.biases() ? whole[p + 1] : Matrix{}};
}

Expected reference(const Given& g, Linear linear, const LinearCasting& casting) {
  tests::reference::Graph graph;
  const auto x = graph.leaf(g.x), w = graph.leaf(g.w), residual = graph.leaf(g.residual);
  const auto bias = g.bias.values.empty() ? nullptr : graph.leaf(g.bias);
  auto y = tests::reference::linear(graph, x, w, bias, casting);
  if (linear == Linear::proj) y = tests::reference::add(graph, residual, y);
  graph.backward(y, g.dy);
  return {y->value, x->gradient, w->gradient, bias == nullptr ? Matrix{} : bias->gradient};
}

/// This rank's share of a matrix, and its cast.
struct Operand {
  Operand(Fp8Module& m, const fp8::Site& site, const Matrix& whole)
      : plain(m.put(m.part(m.share(site), whole))), copies(m.copies(site.role, plain.rows(), plain.cols())) {
    m.context.quantizer->cast(site, copies, plain, m.share(site).tokens());
  }
  Tensor plain;
  fp8::Operands copies;
};

/// Expects that this rank's share of the cast is its share of the whole matrix's cast if ranks share the scale.
void expect_cast_of_whole(const Fp8Module& m, const fp8::Site& site, const fp8::Operands& copies, const Matrix& whole) {
  const auto seen = Fp8Module::see(copies);
  for (const bool columnwise : {false, true}) {
    const auto& got = columnwise ? seen.columnwise : seen.rowwise;
    const auto want = m.cast_of(site, whole, columnwise);
    const std::string what = name_of(site.linear, site.role) + (columnwise ? " columnwise" : " rowwise");
    EXPECT_TRUE(tests::same_bits(got.codes.values, want.codes.values)) << what;
    EXPECT_TRUE(tests::same_bits(got.inverse.values, want.inverse.values)) << "scales of " << what;
  }
}

Fp8Results run(Fp8Module& m, Linear linear, const Given& g) {
  const bool column = linear == Linear::qkv;
  const fp8::Site site = Fp8Module::site(linear, Role::input), gradient = site.with(Role::output_gradient);
  const int p = m.weight_of(linear);
  const auto plain = m.weights(kLayer), sums = m.gradients(kLayer);
  const auto at = static_cast<std::size_t>(p);
  const model::LinearWeights w{m.fp8_weight(linear), m.dims.biases() ? plain[at + 1] : Tensor{}};
  const model::AffineGradient dw{{sums[at], m.dims.biases() ? sums[at + 1] : Tensor{}}, false};
  const auto scratch = m.linear_scratch();
  const Operand x(m, site, g.x);
  expect_cast_of_whole(m, site, x.copies, g.x);

  const Tensor y = column ? m.output(m.dims.tokens(), m.dims.qkv_width()) : m.put_tokens(g.residual);
  if (column)
    column_linear_forward(m.context, y, x.copies, w, scratch, model::Overlap().qkv().forward);
  else
    EXPECT_TRUE(row_linear_forward(m.context, y, x.copies, w, y, scratch, model::Overlap().proj().forward).made());
  const Tensor my_dy = m.put(m.part(m.share(gradient), g.dy));
  const Tensor dx = m.output(x.plain.rows(), x.plain.cols());
  if (column) {
    const auto dy = output_gradient(m.context, site, my_dy, scratch);
    expect_cast_of_whole(m, gradient, dy.copies, g.dy);
    auto sum = column_linear_backward(m.context, dx, dw, dy, x.copies, w, scratch, model::Overlap().qkv());
    EXPECT_EQ(sum.wait(m.context).count(), 1);
  } else {
    const model::LinearInput input(x.copies, site);
    model::RowBackward backward(m.context, input, my_dy, scratch, model::Overlap().proj().gather);
    expect_cast_of_whole(m, gradient, backward.gradient(), g.dy);
    std::move(backward).dgrad(m.context, dx, dw, w).wgrad(m.context, dw);
  }

  return {y, dx, dw.sum};
}

void expect_results(const Fp8Module& m, Linear linear, const Fp8Results& got, const Expected& want) {
  const fp8::Site site = Fp8Module::site(linear, Role::input);
  const int p = m.weight_of(linear);
  m.expect_share("y", m.share(site.with(Role::output_gradient)), got.y, want.y);
  m.expect_share("dx", m.share(site), got.dx, want.dx);
  m.expect_gradient(p, got.sum.weight, want.dw);
  if (m.dims.biases()) m.expect_gradient(p + 1, got.sum.bias, want.dbias);
}

/// The cast of x with a wrong scale. With one scale for the matrix it is that of another amax. With block scales, which
/// are powers of two and so change only small values, it is one scale for all blocks, far too small.
Casting badly_scaled(const Fp8Module& m, const fp8::Site& site) {
  return [&m, site](const Matrix& x) {
    auto rule = m.rule(site, false);
    double amax = 0;
    for (const double v : x.values) amax = std::max(amax, std::abs(v));
    rule.scale = (m.recipe.per_tensor() ? 0.8f : 0x1p-8f) * rule.factors(amax).scale;
    rule.scaling = tensor::Scaling::tensor;
    const Matrix bad = tests::reference::cast(x, rule).values();
    return Operands{bad, bad};
  };
}

/// Expects that each fault in a reference makes its results differ by more than rounding may.
void expect_faults_are_seen(const Fp8Module& m, const Given& g, Linear linear, const Fp8Results& got,
                            const LinearCasting& right) {
  const auto differs = [&](const std::string& fault, const LinearCasting& casting) {
    const Expected wrong = reference(g, linear, casting);
    EXPECT_FALSE(m.close(Module::get(got.y), wrong.y) && m.close(Module::get(got.dx), wrong.dx) &&
                 m.close(Module::get(got.sum.weight), wrong.dw))
        << fault;
  };
  const auto site = Fp8Module::site(linear, Role::input);
  for (const Role role : {Role::input, Role::weight, Role::output_gradient}) {
    const auto with = [&](const Casting& other) {
      LinearCasting casting = right;
      (role == Role::input ? casting.input : role == Role::weight ? casting.weight : casting.output_gradient) = other;
      return casting;
    };
    const Casting& casting = role == Role::input    ? right.input
                             : role == Role::weight ? right.weight
                                                    : right.output_gradient;
    differs(name_of(linear, role) + " not cast", with([](const Matrix& x) { return Operands{x, x}; }));
    differs(name_of(linear, role) + " with another scale", with(badly_scaled(m, site.with(role))));
    // Powers of two as scales change only values below the normal ones, and in E5M2 no value is so small here.
    const bool alike = m.recipe.dtype(role) == tensor::DType::e5m2 && !m.recipe.per_tensor();
    if (m.recipe.two_copies(role) && !alike) {
      differs(name_of(linear, role) + " rowwise for columnwise", with([&casting](const Matrix& x) {
                const Matrix rows = casting(x).rowwise;
                return Operands{rows, rows};
              }));
      differs(name_of(linear, role) + " columnwise for rowwise", with([&casting](const Matrix& x) {
                const Matrix columns = casting(x).columnwise;
                return Operands{columns, columns};
              }));
    }
  }
}

void run_setting(const Fp8Setting& setting, Linear linear) {
  Fp8Module m(setting);
  const auto site = Fp8Module::site(linear, Role::input), gradient = site.with(Role::output_gradient);
  if (setting.later) {
    const Given before = given(m, linear, 11);
    const Operand x(m, site, before.x), dy(m, gradient, before.dy);
    m.end_step();
  }
  const Given g = given(m, linear, 1);
  const Fp8Results got = run(m, linear, g);
  const auto made = [](const Operands& copies) { return [copies](const Matrix&) { return copies; }; };
  const LinearCasting casting{made(m.exactly(site)(g.x)), made(m.weight_casting(linear)(g.w)),
                              made(m.exactly(gradient)(g.dy))};
  expect_results(m, linear, got, reference(g, linear, casting));
  // Once is enough: this tests the arithmetic of the test.
  const bool fp32 = setting.of.compute == tensor::DType::fp32 && setting.of.arch == deck::Arch::llama;
  if (fp32 && linear == Linear::qkv && m.group.size() == 1) expect_faults_are_seen(m, g, linear, got, casting);
}

TEST(Fp8Linear, ColumnParallel) {
  for (const Fp8Setting& setting : tests::fp8_settings(true)) {
    SCOPED_TRACE(name_of(setting));
    run_setting(setting, Linear::qkv);
  }
}

TEST(Fp8Linear, RowParallel) {
  for (const Fp8Setting& setting : tests::fp8_settings(true)) {
    SCOPED_TRACE(name_of(setting));
    run_setting(setting, Linear::proj);
  }
}

}  // namespace
}  // namespace shard8
