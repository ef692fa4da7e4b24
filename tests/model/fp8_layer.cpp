// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/model/fp8_layer.hpp"

#include <gtest/gtest.h>

#include <tuple>

#include "kernels/rope.hpp"

namespace shard8::tests {

using fp8::Linear;
using fp8::Role;
using model::TransformerLayer;
using tensor::Tensor;

Fp8Layer::Fp8Layer(Fp8Module& m, deck::Recompute recompute)
    : weights(TransformerLayer::bind(m.model.arch, m.fp8_weights())),
      gradient_tensors(m.gradients(Fp8Module::kLayer)),
      gradients(TransformerLayer::bind_gradients(m.model.arch, gradient_tensors, false)) {
  Tensor table;
  if (m.model.arch == deck::Arch::llama) {
    table = m.arena().allocate({2, m.dims.seq, m.dims.head_dim / 2}, tensor::DType::fp32);
    kernels::rope_table(m.context.executor.exec(), table, static_cast<float>(m.model.rope_theta));
  }
  const auto linear = model::LinearScratch::allocate_exchanged(m.dims, m.recipe, m.arena());
  std::tie(shared, scratch) =
      TransformerLayer::allocate_scratch(m.dims, recompute, m.recipe, m.model.layers, table, linear, linear, m.arena());
  saved = TransformerLayer::allocate_saved(m.dims, recompute, m.recipe, 0, shared, m.arena());
}

void Fp8Layer::keep_all_inputs(Fp8Module& m) {
  const auto own = [&](fp8::Operands& copies) {
    copies = m.copies(Role::input, copies.by_rows.rows(), copies.by_rows.cols());
  };
  own(saved.attention.qkv.input);
  own(saved.attention.proj_input);
  own(saved.mlp.fc1.input);
  own(saved.mlp.fc2_input);
}

Fp8Run::Fp8Run(Fp8Module& m, const Fp8Layer& of, Parts parts, unsigned seed)
    : x(m.random(m.dims.tokens(), m.dims.hidden, seed)),
      dy(Module::widened(m.random(m.dims.tokens(), m.dims.hidden, seed + 1), 1, 0)),
      my_x(m.put_tokens(x)),
      y(m.output(m.dims.tokens_local(), m.dims.hidden)),
      dx(m.put_tokens(dy)),
      layer(of),
      parts_(parts) {
  const auto& [attention_weights, mlp_weights] = layer.weights;
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
    attention.forward(m.context, middle, layer.saved.attention, my_x, attention_weights, layer.scratch.attention);
    inputs_[at(Linear::qkv)] = Fp8Module::see(layer.saved.attention.qkv.input);
    inputs_[at(Linear::proj)] = Fp8Module::see(layer.saved.attention.proj_input);
  }
  if (parts.mlp) {
    mlp.forward(m.context, y, layer.saved.mlp, middle, mlp_weights, layer.scratch.mlp);
    inputs_[at(Linear::fc1)] = Fp8Module::see(layer.saved.mlp.fc1.input);
    inputs_[at(Linear::fc2)] = Fp8Module::see(layer.saved.mlp.fc2_input);
    auto fc2 = mlp.begin_backward(m.context, dx, layer.saved.mlp, layer.scratch.mlp);
    mlp.backward(m.context, fc2, dx, layer.gradients.mlp, middle, layer.saved.mlp, mlp_weights, layer.scratch.mlp);
    gradients_[at(Linear::fc1)] = last_gradient(layer.scratch.mlp.linear, m.dims.fc1_width());
  }
  middle_gradient_ = m.whole_tokens(dx);
  if (parts.attention) {
    auto proj = attention.begin_backward(m.context, dx, layer.saved.attention, layer.scratch.attention);
    attention.backward(m.context, proj, false, dx, layer.gradients.attention, my_x, layer.saved.attention,
                       attention_weights, layer.scratch.attention);
    gradients_[at(Linear::qkv)] = last_gradient(layer.scratch.attention.linear, m.dims.qkv_width());
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
  const auto weights = reference::Layer::bind(m.model.arch, leaves);
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
