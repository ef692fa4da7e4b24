// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "kernels/attention.hpp"
#include "model/activations.hpp"
#include "tests/model/module.hpp"
#include "tests/model/reference/reference.hpp"
#include "tests/support/compare.hpp"

namespace shard8 {
namespace {

using deck::Recompute;
using model::TransformerLayer;
using tensor::DType;
using tensor::Tensor;
using tests::Matrix;
using tests::Module;
using tests::Setting;

constexpr int kLayer = 1;

/// A layer's memory on this rank.
struct Layer {
  Layer(Module& m, Recompute recompute)
      : weights(bind(m.model, m.weights(kLayer))),
        gradient_tensors(m.gradients(kLayer)),
        gradients(TransformerLayer::bind_gradients(m.model, gradient_tensors, false)) {
    Tensor table;
    if (m.model.arch == deck::Arch::llama) {
      table = m.arena().allocate({2, m.dims.seq, m.dims.head_dim / 2}, DType::fp32);
      kernels::rope_table(m.context.executor.exec(), table, static_cast<float>(m.model.rope_theta));
    }
    const auto linear = model::LinearScratch::allocate_exchanged(m.dims, {}, m.arena());
    model::LayerMemory memory(m.dims, recompute, {}, m.model.layers, m.arena());
    scratch = memory.allocate_scratch(table, linear, linear, m.arena());
    saved = memory.allocate_saved(0, m.arena());
  }
  static TransformerLayer::Weights bind(const deck::ModelConfig& model, const std::vector<Tensor>& plain) {
    return TransformerLayer::bind(model, std::vector<model::Weight>(plain.begin(), plain.end()));
  }

  TransformerLayer::Weights weights;
  std::vector<Tensor> gradient_tensors;
  TransformerLayer::Gradients gradients;
  TransformerLayer::Saved saved;
  TransformerLayer::Scratch scratch;
};

/// Input, gradient of the output, and the reference.
struct Case {
  explicit Case(const Module& m)
      : leaves(leaves_of(graph, m, kLayer)),
        layer(tests::reference::Layer::bind(m.model, leaves)),
        x(graph.leaf(m.random(m.dims.tokens(), m.dims.hidden, 1))),
        dy(m.random(m.dims.tokens(), m.dims.hidden, 2)) {}

  tests::reference::Graph graph;
  std::vector<tests::Var> leaves;
  tests::reference::Layer layer;
  tests::Var x;
  Matrix dy;
};

/// Compares the gradients of a range of the layer's parameters: those of the module under test.
void expect_gradients(const Module& m, const Case& c, const Layer& layer, std::size_t first, std::size_t end) {
  for (std::size_t p = first; p < end; ++p)
    m.expect_close("gradient " + std::to_string(p),
                   m.whole_gradient(kLayer, static_cast<int>(p), layer.gradient_tensors[p]), c.leaves[p]->gradient);
}

/// Parameters of a layer before those of its MLP.
std::size_t attention_parameters(const deck::ModelConfig& model) {
  const auto all = model::layer_parameters(model);
  return static_cast<std::size_t>(std::ranges::find(all, model::Parameter::norm2_weight) - all.begin());
}

void run_attention(const Setting& setting) {
  Module m(tests::small_model(setting), setting.compute);
  Case c(m);
  const auto y = tests::reference::multihead_attention(c.graph, m.model, c.x, c.layer);
  c.graph.backward(y, c.dy);

  const Layer layer(m, Recompute::none);
  model::MultiheadAttention module;
  module.qkv.norm = {setting.arch, m.dims.norm_eps};
  module.attention.shape = {m.dims.batch, m.dims.seq, m.dims.heads, m.dims.kv_heads, m.dims.head_dim};
  const Tensor x = m.put_tokens(c.x->value), out = m.output(m.dims.tokens_local(), m.dims.hidden),
               dx = m.put_tokens(c.dy);
  EXPECT_TRUE(module.forward(m.context, out, layer.saved.attention, x, layer.weights.attention, layer.scratch.attention)
                  .made());
  m.expect_close("y", m.whole_tokens(out), y->value);
  auto proj = module.begin_backward(m.context, dx, layer.saved.attention, layer.scratch.attention);
  EXPECT_FALSE(module.backward(m.context, std::move(proj), dx, layer.gradients.attention, x, layer.saved.attention,
                               layer.weights.attention, layer.scratch.attention));
  m.expect_close("dx", m.whole_tokens(dx), c.x->gradient);
  expect_gradients(m, c, layer, 0, attention_parameters(m.model));
}

void run_mlp(const Setting& setting) {
  Module m(tests::small_model(setting), setting.compute);
  Case c(m);
  const auto y = tests::reference::layernorm_mlp(c.graph, m.model, c.x, c.layer);
  c.graph.backward(y, c.dy);

  const Layer layer(m, Recompute::none);
  const model::LayernormMlp module{{{setting.arch, m.dims.norm_eps}}};
  const Tensor x = m.put_tokens(c.x->value), out = m.output(m.dims.tokens_local(), m.dims.hidden),
               dx = m.put_tokens(c.dy);
  EXPECT_TRUE(module.forward(m.context, out, layer.saved.mlp, x, layer.weights.mlp, layer.scratch.mlp).made());
  m.expect_close("y", m.whole_tokens(out), y->value);
  auto fc2 = module.begin_backward(m.context, dx, layer.saved.mlp, layer.scratch.mlp);
  EXPECT_FALSE(module.backward(m.context, std::move(fc2), dx, layer.gradients.mlp, x, layer.saved.mlp,
                               layer.weights.mlp, layer.scratch.mlp));
  m.expect_close("dx", m.whole_tokens(dx), c.x->gradient);
  expect_gradients(m, c, layer, attention_parameters(m.model), c.leaves.size());
}

/// Attention of this rank's heads alone.
void run_dot_product(const Setting& setting) {
  Module m(tests::small_model(setting), setting.compute);
  tests::reference::Graph graph;
  const auto qkv = graph.leaf(m.random(m.dims.tokens(), m.model.query_width() + 2 * m.model.key_width(), 4));
  const auto y =
      tests::reference::attention(graph, qkv, {m.model.heads, m.model.kv_heads, m.dims.head_dim, m.model.seq});
  const Matrix dy = m.random(y->value.rows, y->value.cols, 5);
  graph.backward(y, dy);

  const auto which = m.rows_of(kLayer, setting.arch == deck::Arch::llama ? 1 : 2);
  std::vector<std::int64_t> heads(static_cast<std::size_t>(m.dims.q_width()));
  std::iota(heads.begin(), heads.end(), m.rank() * m.dims.q_width());
  const model::DotProductAttention module{{m.dims.batch, m.dims.seq, m.dims.heads, m.dims.kv_heads, m.dims.head_dim}};
  const Tensor mine = m.put(Module::columns(qkv->value, which)), o = m.output(m.dims.tokens(), m.dims.q_width());
  const Tensor lse = m.arena().allocate({m.dims.batch, m.dims.heads, m.dims.seq}, DType::fp32);
  module.forward(m.context, o, lse, mine);
  m.expect_close("o", m.whole_columns(o, heads, m.model.query_width()), y->value);
  const Tensor dqkv = m.output(m.dims.tokens(), m.dims.qkv_width());
  module.backward(m.context, dqkv, m.put(Module::columns(dy, heads)), o, mine, lse);
  m.expect_close("dqkv", m.whole_columns(dqkv, which, qkv->value.cols), qkv->gradient);
}

/// A layer's result, input gradient and weight gradients on this rank.
struct Results {
  Tensor y, dx;
  std::vector<Tensor> gradients;
};

Results run_layer(Module& m, const Case& c, Recompute recompute) {
  const Layer layer(m, recompute);
  const TransformerLayer module(m.dims);
  const Tensor x = m.put_tokens(c.x->value);
  const Results r{m.output(m.dims.tokens_local(), m.dims.hidden), m.put_tokens(c.dy), layer.gradient_tensors};
  EXPECT_TRUE(module.forward(m.context, r.y, layer.saved, x, layer.weights, layer.scratch).made());
  if (recompute == Recompute::full) {
    // Other layers use the same buffers in between.
    for (const Tensor& t :
         {layer.saved.attention.unnormed, layer.saved.attention.rotated, layer.saved.middle, layer.saved.mlp.fc2.plain,
          layer.saved.mlp.preactivation, layer.saved.attention.proj.plain, layer.saved.attention.lse})
      if (!t.empty()) std::fill_n(t.data, t.bytes(), std::byte{0xff});
    module.recompute(m.context, layer.saved, x, layer.weights, layer.scratch);
  }
  auto begun = module.begin_backward(m.context, r.dx, layer.saved, layer.scratch);
  module.backward(m.context, std::move(begun), r.dx, layer.gradients, x, layer.saved, layer.weights, layer.scratch,
                  [] {});
  return r;
}

void run_whole_layer(const Setting& setting) {
  Module m(tests::small_model(setting), setting.compute);
  Case c(m);
  const auto y = tests::reference::layernorm_mlp(
      c.graph, m.model, tests::reference::multihead_attention(c.graph, m.model, c.x, c.layer), c.layer);
  c.graph.backward(y, c.dy);
  const Results r = run_layer(m, c, Recompute::none);
  m.expect_close("y", m.whole_tokens(r.y), y->value);
  m.expect_close("dx", m.whole_tokens(r.dx), c.x->gradient);
  m.expect_gradients(kLayer, r.gradients, c.leaves);
}

void run_recompute(const Setting& setting) {
  Module m(tests::small_model(setting), setting.compute);
  const Case c(m);
  const Results kept = run_layer(m, c, Recompute::none);
  for (const auto recompute : {Recompute::selective, Recompute::full}) {
    const Results again = run_layer(m, c, recompute);
    const char* name = recompute == Recompute::full ? "full" : "selective";
    EXPECT_TRUE(tests::same_bits(Module::get(again.y).values, Module::get(kept.y).values)) << name << ", y";
    EXPECT_TRUE(tests::same_bits(Module::get(again.dx).values, Module::get(kept.dx).values)) << name << ", dx";
    for (std::size_t p = 0; p < kept.gradients.size(); ++p)
      EXPECT_TRUE(tests::same_bits(Module::get(again.gradients[p]).values, Module::get(kept.gradients[p]).values))
          << name << ", gradient " << p;
  }
}

template <class Run>
void for_all_settings(Run run) {
  std::vector<Setting> all = tests::settings();
  all.push_back({deck::Arch::llama, DType::fp32, true});
  all.push_back({deck::Arch::llama, DType::bf16, true});
  for (const Setting& setting : all) {
    SCOPED_TRACE(name_of(setting));
    run(setting);
  }
}

TEST(DotProductAttention, OfTheHeadsOfARank) { for_all_settings(run_dot_product); }
TEST(MultiheadAttention, ForwardAndBackward) { for_all_settings(run_attention); }
TEST(LayernormMlp, ForwardAndBackward) { for_all_settings(run_mlp); }
TEST(TransformerLayer, ForwardAndBackward) { for_all_settings(run_whole_layer); }
TEST(TransformerLayer, SameBitsRecomputed) { for_all_settings(run_recompute); }

}  // namespace
}  // namespace shard8
