// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/products.hpp"

#include <gtest/gtest.h>

#include "model/linear.hpp"
#include "tests/model/module.hpp"
#include "tests/model/reference/reference.hpp"

namespace shard8 {
namespace {

using tests::Matrix;
using tests::Module;
using tests::Setting;

constexpr int kNormLayer = 1;

Matrix plus(Matrix a, const Matrix& b) {
  for (std::size_t i = 0; i < a.values.size(); ++i) a.values[i] += b.values[i];
  return a;
}

void run_norm(const Setting& setting) {
  Module m(tests::small_model(setting.arch), setting.compute);
  const bool gpt2 = setting.arch == deck::Arch::gpt2;
  tests::reference::Graph graph;
  const auto leaves = leaves_of(graph, m, kNormLayer);
  const auto reference = tests::reference::Layer::bind(m.model, leaves);
  const auto x = graph.leaf(m.random(m.dims.tokens(), m.dims.hidden, 1, 2.0, 0.5));
  const auto y = tests::reference::norm(graph, m.model, x, reference.norm1);
  const Matrix dy = m.random(y->value.rows, y->value.cols, 2);
  const Matrix residual = m.random(y->value.rows, y->value.cols, 3);
  graph.backward(y, dy);

  const model::Norm norm{setting.arch, m.dims.norm_eps};
  const auto w = m.weights(kNormLayer);
  const auto dw = m.gradients(kNormLayer);
  const model::Affine weights{w[0], gpt2 ? w[1] : tensor::Tensor{}};
  const model::Affine gradient{dw[0], gpt2 ? dw[1] : tensor::Tensor{}};
  const auto statistics = model::NormStatistics::allocate(setting.arch, m.dims.tokens_local(), m.arena());
  EXPECT_EQ(statistics.mean.empty(), !gpt2);
  const auto mine = m.put_tokens(x->value);
  const auto out = m.output(m.dims.tokens_local(), m.dims.hidden);
  norm.forward(m.context, out, statistics, mine, weights);
  m.expect_close("y", m.whole_tokens(out), y->value);

  const auto my_dy = m.put_tokens(dy);
  const auto dx = m.output(m.dims.tokens_local(), m.dims.hidden);
  norm.backward(m.context, dx, gradient, my_dy, mine, statistics, weights, {});
  m.expect_close("dx", m.whole_tokens(dx), x->gradient);
  m.expect_close("dweight", m.whole_gradient(kNormLayer, 0, dw[0]), leaves[0]->gradient);
  if (gpt2) m.expect_close("dbias", m.whole_gradient(kNormLayer, 1, dw[1]), leaves[1]->gradient);

  // With a residual gradient, in place.
  const auto in_place = m.put_tokens(residual);
  norm.backward(m.context, in_place, gradient, my_dy, mine, statistics, weights, in_place);
  m.expect_close("dx + residual", m.whole_tokens(in_place), plus(x->gradient, residual));
  m.expect_close("dweight twice", m.whole_gradient(kNormLayer, 0, dw[0]),
                 plus(leaves[0]->gradient, leaves[0]->gradient));
}

/// Norm and QKV.
void run_layernorm_linear(const Setting& setting, bool recompute) {
  Module m(tests::small_model(setting.arch), setting.compute);
  const bool gpt2 = setting.arch == deck::Arch::gpt2;
  tests::reference::Graph graph;
  const auto leaves = leaves_of(graph, m, kNormLayer);
  const auto reference = tests::reference::Layer::bind(m.model, leaves);
  const auto x = graph.leaf(m.random(m.dims.tokens(), m.dims.hidden, 1));
  const auto y = tests::reference::layernorm_linear(graph, m.model, x, reference.norm1, reference.qkv);
  const Matrix dy = m.random(y->value.rows, y->value.cols, 2);
  const Matrix residual = m.random(m.dims.tokens(), m.dims.hidden, 3);
  graph.backward(y, dy);

  const auto w = m.weights(kNormLayer);
  const auto dw = m.gradients(kNormLayer);
  const tensor::Tensor none;
  const model::LayernormLinear module{{setting.arch, m.dims.norm_eps}};
  const model::LayernormLinear::Weights weights = gpt2 ? model::LayernormLinear::Weights{{w[0], w[1]}, {w[2], w[3]}}
                                                       : model::LayernormLinear::Weights{{w[0], none}, {w[1], none}};
  const model::LayernormLinear::Gradients gradients =
      gpt2 ? model::LayernormLinear::Gradients{{dw[0], dw[1]}, {{dw[2], dw[3]}, false}}
           : model::LayernormLinear::Gradients{{dw[0], none}, {{dw[1], none}, false}};
  const std::size_t used = gpt2 ? 4 : 2;
  model::LinearScratch scratch;
  scratch.gathered = m.output(m.dims.tokens(), m.dims.hidden);
  scratch.partial = m.output(m.dims.tokens(), m.dims.hidden);
  model::LayernormLinear::Saved saved;
  saved.statistics = model::NormStatistics::allocate(setting.arch, m.dims.tokens_local(), m.arena());
  saved.input = m.output(m.dims.tokens_local(), m.dims.hidden);
  saved.input.recomputed = recompute;

  const auto which = m.rows_of(kNormLayer, gpt2 ? 2 : 1);
  const auto mine = m.put_tokens(x->value);
  const auto out = m.output(m.dims.tokens(), m.dims.qkv_width());
  module.forward(m.context, out, saved, mine, weights, scratch);
  m.expect_close("y", m.whole_columns(out, which, y->value.cols), y->value);

  if (recompute) std::fill_n(saved.input.plain.data, saved.input.plain.bytes(), std::byte{0xff});
  const auto dx = m.put_tokens(residual);
  const auto dnormed = m.output(m.dims.tokens_local(), m.dims.hidden);
  module.backward(m.context, dx, gradients, m.put(Module::columns(dy, which)), mine, saved, weights, dnormed, scratch);
  m.expect_close("dx", m.whole_tokens(dx), plus(x->gradient, residual));
  for (std::size_t p = 0; p < used; ++p)
    m.expect_close("gradient " + std::to_string(p), m.whole_gradient(kNormLayer, static_cast<int>(p), dw[p]),
                   leaves[p]->gradient);
}

TEST(Norm, OfTheTokensOfARank) {
  for (const Setting& setting : tests::settings()) {
    SCOPED_TRACE(name_of(setting));
    run_norm(setting);
  }
}

TEST(LayernormLinear, KeptAndComputedAgain) {
  for (const Setting& setting : tests::settings()) {
    for (const bool recompute : {false, true}) {
      SCOPED_TRACE(name_of(setting) + (recompute ? ", computed again" : ""));
      run_layernorm_linear(setting, recompute);
    }
  }
}

}  // namespace
}  // namespace shard8
