// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <cstring>

#include "tests/model/fp8_layer.hpp"

// Norm and QKV, against a double-precision reference with casts.

namespace shard8 {
namespace {

using fp8::Linear;
using fp8::Role;
using tensor::Tensor;
using tests::Fp8Layer;
using tests::Fp8Module;
using tests::Fp8Setting;
using tests::Matrix;

constexpr fp8::Site kInput{0, Linear::qkv, Role::input}, kGradient{0, Linear::qkv, Role::output_gradient};

/// The results of one forward and backward on this rank.
struct Results {
  Tensor y, dx;
  Fp8Module::Seen input;
};

/// dx = residual + gradient. With `recompute` the input's cast is overwritten between forward and backward.
Results run(Fp8Module& m, Fp8Layer& layer, const Matrix& x, const Matrix& dy, const Matrix& residual, bool recompute) {
  const model::LayernormLinear module{{m.model.arch, m.dims.norm_eps}};
  model::LayernormLinear::Saved& saved = layer.saved.attention.qkv;
  saved.input.recomputed = recompute;
  const auto& w = layer.weights.attention.qkv;
  const auto& scratch = layer.scratch.attention;
  const Tensor my_x = m.put_tokens(x);
  Results r{m.output(m.dims.tokens(), m.dims.qkv_width()), m.put_tokens(residual), {}};
  module.forward(m.context, r.y, saved, my_x, w, scratch.qkv);
  std::memset(saved.input.plain.data, 0xff, saved.input.plain.bytes());
  if (recompute)
    for (const Tensor& t : {saved.input.copies.columnwise.data, saved.input.copies.columnwise.scale_inv})
      std::memset(t.data, 0xff, t.bytes());
  const Tensor my_dy = m.put(m.part(m.share(kGradient), dy));
  const auto gradient = output_gradient(m.context, kInput, my_dy, scratch.qkv);
  module.backward(m.context, r.dx, layer.gradients.attention.qkv, gradient, my_x, saved, w, scratch.dnormed,
                  scratch.qkv);
  r.input =
      Fp8Module::see(saved.input.copies);  // after backward, which with `recompute` writes the copies that it reads
  return r;
}

void run_setting(const Fp8Setting& setting, bool recompute) {
  Fp8Module m(setting);
  const auto random = [&](std::int64_t cols, unsigned seed) { return m.random(m.dims.tokens(), cols, seed); };
  const std::int64_t width = m.whole_parameter(Fp8Module::kLayer, m.weight_of(Linear::qkv)).rows;
  if (setting.later) {
    Fp8Layer before(m, deck::Recompute::none);
    run(m, before, random(m.dims.hidden, 31), Fp8Module::widened(random(width, 32), 1, 0), random(m.dims.hidden, 33),
        false);
    m.end_step();
  }
  Fp8Layer layer(m, recompute ? deck::Recompute::selective : deck::Recompute::none);
  layer.keep_all_inputs(m);
  const Matrix x = random(m.dims.hidden, 1), residual = random(m.dims.hidden, 3);
  const Matrix dy = Fp8Module::widened(random(width, 2), 1, 0);
  const Results got = run(m, layer, x, dy, residual, recompute);

  tests::reference::Graph graph;
  const auto leaves = leaves_of(graph, m, Fp8Module::kLayer);
  const auto w = tests::reference::Layer::bind(m.model, leaves);
  const auto in = graph.leaf(x);
  const auto linear = [&](tests::reference::Graph& g, tests::Var input, const tests::reference::Affine& of, Linear) {
    return tests::reference::linear(
        g, input, of.weight, of.bias,
        {m.as_seen(kInput, got.input), m.weight_casting(Linear::qkv), m.exactly(kGradient, dy)});
  };
  const auto y = layernorm_linear(graph, m.model, in, w.norm1, w.qkv, Linear::qkv, linear);
  graph.backward(y, dy);
  Matrix dx = in->gradient;
  for (std::size_t i = 0; i < dx.values.size(); ++i) dx.values[i] += residual.values[i];
  m.expect_share("y", m.share(kGradient), got.y, y->value);
  m.expect_share("dx", m.share(kInput), got.dx, dx);
  const int used = m.dims.biases() ? 4 : 2;
  for (int p = 0; p < used; ++p) {
    const auto at = static_cast<std::size_t>(p);
    m.expect_gradient(p, layer.gradient_tensors[at], leaves[at]->gradient);
  }
}

TEST(Fp8LayernormLinear, KeptAndComputedAgain) {
  for (const Fp8Setting& setting : tests::fp8_settings(false)) {
    const bool recompute = setting.of.arch == deck::Arch::gpt2;
    SCOPED_TRACE(name_of(setting) + (recompute ? ", computed again" : ""));
    run_setting(setting, recompute);
  }
}

}  // namespace
}  // namespace shard8
