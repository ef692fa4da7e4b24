// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/model/fp8_layer.hpp"

#include <gtest/gtest.h>

#include <utility>

#include "kernels/attention.hpp"

namespace shard8::tests {

using fp8::Linear;
using fp8::Role;
using model::TransformerLayer;
using tensor::Tensor;

Fp8Layer::Fp8Layer(Fp8Module& m, deck::Recompute recompute)
    : weights(TransformerLayer::bind(m.model, m.fp8_weights())),
      gradient_tensors(m.gradients(Fp8Module::kLayer)),
      gradients(TransformerLayer::bind_gradients(m.model, gradient_tensors, false)) {
  Tensor table;
  if (m.model.arch == deck::Arch::llama) {
    table = m.arena().allocate({2, m.dims.seq, m.dims.head_dim / 2}, tensor::DType::fp32);
    kernels::rope_table(m.context.executor.exec(), table, static_cast<float>(m.model.rope_theta));
  }
  const auto linear = model::LinearScratch::allocate_exchanged(m.dims, m.recipe, m.arena());
  model::LayerMemory memory(m.dims, recompute, m.recipe, m.model.layers, m.arena());
  scratch = memory.allocate_scratch(table, linear, linear, m.arena());
  saved = memory.allocate_saved(0, m.arena());
}

void Fp8Layer::keep_all_inputs(Fp8Module& m) {
  const auto own = [&](fp8::Operands& copies) {
    copies = m.copies(Role::input, copies.rowwise.rows(), copies.rowwise.cols());
  };
  own(saved.attention.qkv.input.copies);
  own(saved.attention.proj.copies);
  own(saved.mlp.fc1.input.copies);
  own(saved.mlp.fc2.copies);
}

Fp8Run::Fp8Run(Fp8Module& m, const Fp8Layer& of, Parts parts, unsigned seed)
    : x(m.random(m.dims.tokens(), m.dims.hidden, seed)),
      dy(Module::widened(m.random(m.dims.tokens(), m.dims.hidden, seed + 1), 1, 0)),
      my_x(m.put_tokens(x)),
      y(m.output(m.dims.tokens_local(), m.dims.hidden)),
      dx(m.put_tokens(dy)),
      layer(of),
      parts_(parts) {
  const auto& attention_weights = layer.weights.attention;
  const auto& mlp_weights = layer.weights.mlp;
  model::MultiheadAttention attention;
  attention.qkv.norm = {m.model.arch, m.dims.norm_eps};
  attention.attention.shape = {m.dims.batch, m.dims.seq, m.dims.heads, m.dims.kv_heads, m.dims.head_dim};
  const model::LayernormMlp mlp{{{m.model.arch, m.dims.norm_eps}}};
  const auto at = [](Linear linear) { return static_cast<std::size_t>(linear); };
  // The scratch holds the output gradient that was cast last: that of the module's first linear.
  const auto last_gradient = [&](const model::LinearScratch& scratch, std::int64_t cols) {
    return Fp8Module::see(scratch.gradient.view(m.recipe, Role::output_gradient, m.dims.tokens(), cols, false));
  };
  const Tensor middle = parts.attention && parts.mlp ? layer.saved.middle : parts.mlp ? my_x : y;
  if (parts.attention) {
    EXPECT_TRUE(
        attention.forward(m.context, middle, layer.saved.attention, my_x, attention_weights, layer.scratch.attention)
            .made());
    inputs_[at(Linear::qkv)] = Fp8Module::see(layer.saved.attention.qkv.input.copies);
    inputs_[at(Linear::proj)] = Fp8Module::see(layer.saved.attention.proj.copies);
  }
  if (parts.mlp) {
    EXPECT_TRUE(mlp.forward(m.context, y, layer.saved.mlp, middle, mlp_weights, layer.scratch.mlp).made());
    inputs_[at(Linear::fc1)] = Fp8Module::see(layer.saved.mlp.fc1.input.copies);
    inputs_[at(Linear::fc2)] = Fp8Module::see(layer.saved.mlp.fc2.copies);
    auto fc2 = mlp.begin_backward(m.context, dx, layer.saved.mlp, layer.scratch.mlp);
    EXPECT_FALSE(mlp.backward(m.context, std::move(fc2), dx, layer.gradients.mlp, middle, layer.saved.mlp, mlp_weights,
                              layer.scratch.mlp));
    gradients_[at(Linear::fc1)] = last_gradient(layer.scratch.mlp.fc1, m.dims.fc1_width());
  }
  middle_gradient_ = m.whole_tokens(dx);
  if (parts.attention) {
    auto proj = attention.begin_backward(m.context, dx, layer.saved.attention, layer.scratch.attention);
    EXPECT_FALSE(attention.backward(m.context, std::move(proj), dx, layer.gradients.attention, my_x,
                                    layer.saved.attention, attention_weights, layer.scratch.attention));
    gradients_[at(Linear::qkv)] = last_gradient(layer.scratch.attention.qkv, m.dims.qkv_width());
  }
}

reference::LinearCasting Fp8Run::casting(const Fp8Module& m, Linear linear) const {
  const auto at = static_cast<std::size_t>(linear);
  const auto site = Fp8Module::site(linear, Role::input), gradient = site.with(Role::output_gradient);
  reference::LinearCasting casting{m.as_seen(site, inputs_[at]), m.weight_casting(linear), {}};
  if (linear == Linear::fc2)
    casting.output_gradient = m.exactly(gradient, dy);
  else if (linear == Linear::proj)
    casting.output_gradient = m.exactly(gradient, middle_gradient_);
  else
    casting.output_gradient = m.as_seen(gradient, gradients_[at]);
  return casting;
}

void Fp8Run::expect_reference(const Fp8Module& m) const {
  reference::Graph graph;
  const auto leaves = leaves_of(graph, m, Fp8Module::kLayer);
  const auto weights = reference::Layer::bind(m.model, leaves);
  const auto linear = [&](reference::Graph& g, Var input, const reference::Affine& w, Linear which) {
    return reference::linear(g, input, w.weight, w.bias, casting(m, which));
  };
  const Var in = graph.leaf(x);
  Var out = in;
  if (parts_.attention) out = reference::multihead_attention(graph, m.model, out, weights, linear);
  if (parts_.mlp) out = reference::layernorm_mlp(graph, m.model, out, weights, linear);
  graph.backward(out, dy);

  m.expect_share("y", {}, y, out->value);
  m.expect_share("dx", {}, dx, in->gradient);
  const std::size_t half = leaves.size() / 2;
  for (std::size_t p = parts_.attention ? 0 : half; p < (parts_.mlp ? leaves.size() : half); ++p)
    m.expect_gradient(static_cast<int>(p), layer.gradient_tensors[p], leaves[p]->gradient);
}

void step_before(Fp8Module& m, Parts parts) {
  Fp8Layer layer(m, deck::Recompute::none);
  layer.keep_all_inputs(m);
  const Fp8Run run(m, layer, parts, 21);
  m.end_step();
}

}  // namespace shard8::tests
