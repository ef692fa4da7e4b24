// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/model/fp8_layer.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "tests/support/compare.hpp"

// The modules of a layer, and the layer, against a double-precision reference with casts.

namespace shard8 {
namespace {

using deck::Recompute;
using tensor::Tensor;
using tests::Fp8Layer;
using tests::Fp8Module;
using tests::Fp8Run;
using tests::Fp8Setting;
using tests::Parts;

void run_parts(Parts parts, bool and_bf16) {
  for (const Fp8Setting& setting : tests::fp8_settings(and_bf16)) {
    SCOPED_TRACE(name_of(setting));
    Fp8Module m(setting);
    if (setting.later) tests::step_before(m, parts);
    Fp8Layer layer(m, Recompute::none);
    layer.keep_all_inputs(m);
    const Fp8Run run(m, layer, parts, 1);
    run.expect_reference(m);
  }
}

/// Fills memory with 0xff (NaN), as if other layers had written to it.
void poison(const Tensor& t) {
  if (!t.empty()) std::memset(t.data, 0xff, t.bytes());
}
void poison(const tensor::Operand& cast) {
  poison(cast.data);
  if (cast.scaling != tensor::Scaling::tensor) poison(cast.scale_inv);  // both copies have the scale of a matrix
}
void poison(const model::LinearInput& input) {
  poison(input.copies.rowwise);
  poison(input.copies.columnwise);
}
void poison_shared(const Fp8Layer& layer, Recompute recompute) {
  const auto& attention = layer.saved.attention;
  const auto& mlp = layer.saved.mlp;
  const Tensor& middle = layer.saved.middle;
  poison(attention.qkv.input.plain);
  poison(mlp.fc2.plain);
  if (recompute == Recompute::selective) poison(mlp.fc2);
  if (recompute == Recompute::none && !mlp.fc2.copies.one()) poison(mlp.fc2.copies.rowwise);
  if (recompute != Recompute::full) return;
  for (const Tensor& t : {attention.rotated, attention.lse, attention.proj.plain, middle, mlp.preactivation}) poison(t);
  for (const auto& norm : {attention.qkv, mlp.fc1}) {
    poison(norm.statistics.rstd);
    poison(norm.statistics.mean);
    poison(norm.input);
  }
  poison(attention.proj);
  poison(mlp.fc2);
}

void expect_same_bits(const Tensor& got, const Tensor& want, const std::string& what) {
  EXPECT_TRUE(tests::same_bits(Fp8Module::get(got).values, Fp8Module::get(want).values)) << what;
}

/// The layer with the memory of a run, which layers share, gives the same bits as its modules one after the other with
/// memory of their own, for every value of model.recompute.
void run_recompute(const Fp8Setting& setting) {
  Fp8Module m(setting, std::int64_t{40} << 20);
  if (setting.later) tests::step_before(m, {});
  Fp8Layer apart(m, Recompute::none);
  apart.keep_all_inputs(m);
  const Fp8Run run(m, apart, {}, 1);
  const model::TransformerLayer module(m.dims);
  for (const auto recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
    const Fp8Layer layer(m, recompute);
    const Tensor y = m.output(m.dims.tokens_local(), m.dims.hidden), dx = m.put_tokens(run.dy);
    EXPECT_TRUE(module.forward(m.context, y, layer.saved, run.my_x, layer.weights, layer.scratch).made());
    poison_shared(layer, recompute);
    if (recompute == Recompute::full) module.recompute(m.context, layer.saved, run.my_x, layer.weights, layer.scratch);
    auto begun = module.begin_backward(m.context, dx, layer.saved, layer.scratch);
    module.backward(m.context, std::move(begun), dx, layer.gradients, run.my_x, layer.saved, layer.weights,
                    layer.scratch, [] {});
    const std::string name = std::array{"none", "selective", "full"}[static_cast<std::size_t>(recompute)];
    expect_same_bits(y, run.y, name + ", y");
    expect_same_bits(dx, run.dx, name + ", dx");
    for (std::size_t p = 0; p < layer.gradient_tensors.size(); ++p)
      expect_same_bits(layer.gradient_tensors[p], apart.gradient_tensors[p], name + ", gradient " + std::to_string(p));
  }
}

TEST(Fp8MultiheadAttention, ForwardAndBackward) { run_parts({true, false}, false); }
TEST(Fp8LayernormMlp, ForwardAndBackward) { run_parts({false, true}, false); }
TEST(Fp8TransformerLayer, ForwardAndBackward) { run_parts({true, true}, true); }
TEST(Fp8TransformerLayer, SameBitsRecomputed) {
  for (const Fp8Setting& setting : tests::fp8_settings(false)) {
    SCOPED_TRACE(name_of(setting));
    run_recompute(setting);
  }
}

}  // namespace
}  // namespace shard8

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
