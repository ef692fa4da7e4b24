// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/model/reference/layer.hpp"

namespace shard8::tests::reference {

Layer Layer::bind(deck::Arch arch, const std::vector<Var>& v) {
  if (arch == deck::Arch::llama)
    return {{v.at(0), nullptr}, {v.at(1), nullptr}, {v.at(2), nullptr},
            {v.at(3), nullptr}, {v.at(4), nullptr}, {v.at(5), nullptr}};
  return {{v.at(0), v.at(1)}, {v.at(2), v.at(3)}, {v.at(4), v.at(5)},
          {v.at(6), v.at(7)}, {v.at(8), v.at(9)}, {v.at(10), v.at(11)}};
}

Var norm(Graph& graph, const deck::ModelConfig& model, Var x, const Affine& w) {
  if (model.arch == deck::Arch::llama) return rmsnorm(graph, x, w.weight, model.norm_eps);
  return layernorm(graph, x, w.weight, w.bias, model.norm_eps);
}

Var plain_linear(Graph& graph, Var x, const Affine& w, fp8::Linear) { return linear(graph, x, w.weight, w.bias); }

Var layernorm_linear(Graph& graph, const deck::ModelConfig& model, Var x, const Affine& norm_w, const Affine& linear_w,
                     fp8::Linear which, const LinearOperation& linear) {
  return linear(graph, norm(graph, model, x, norm_w), linear_w, which);
}

Var multihead_attention(Graph& graph, const deck::ModelConfig& model, Var x, const Layer& w,
                        const LinearOperation& linear) {
  const std::int64_t dim = model.hidden / model.heads;
  Var qkv = layernorm_linear(graph, model, x, w.norm1, w.qkv, fp8::Linear::qkv, linear);
  if (model.arch == deck::Arch::llama)
    qkv = rope(graph, qkv, model.heads + model.kv_heads, dim, model.seq, model.rope_theta);
  const Var heads = attention(graph, qkv, {model.heads, model.kv_heads, dim, model.seq});
  return add(graph, x, linear(graph, heads, w.proj, fp8::Linear::proj));
}

Var layernorm_mlp(Graph& graph, const deck::ModelConfig& model, Var x, const Layer& w, const LinearOperation& linear) {
  const Var inside = layernorm_linear(graph, model, x, w.norm2, w.fc1, fp8::Linear::fc1, linear);
  const Var active = model.arch == deck::Arch::llama ? swiglu(graph, inside) : gelu(graph, inside);
  return add(graph, x, linear(graph, active, w.fc2, fp8::Linear::fc2));
}

}  // namespace shard8::tests::reference
