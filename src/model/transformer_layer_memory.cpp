// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/transformer_layer.hpp"

namespace shard8::model {

using deck::Recompute;
using tensor::DType;
using tensor::Tensor;

namespace {

using Saved = TransformerLayer::Saved;

LayernormLinear::Saved norm_saved(const Dims& d, Recompute recompute, const LayernormLinear::Saved& shared,
                                  tensor::Arena& arena) {
  if (recompute == Recompute::full) return shared;
  LayernormLinear::Saved s;
  s.statistics = NormStatistics::allocate(d.arch, d.tokens_local(), arena);
  s.recompute = recompute == Recompute::selective;
  s.normed = s.recompute ? shared.normed : arena.allocate({d.tokens_local(), d.hidden}, d.compute);
  return s;
}

}  // namespace

Saved TransformerLayer::allocate_saved(const Dims& d, Recompute recompute, const Saved& shared, tensor::Arena& arena) {
  if (recompute == Recompute::full) return shared;
  Saved s;
  s.attention.qkv = norm_saved(d, recompute, shared.attention.qkv, arena);
  s.attention.rotated = arena.allocate({d.tokens(), d.qkv_width()}, d.compute);
  s.attention.lse = arena.allocate({d.batch, d.heads, d.seq}, DType::fp32);
  s.attention.heads = arena.allocate({d.tokens(), d.q_width()}, d.compute);
  s.middle = arena.allocate({d.tokens_local(), d.hidden}, d.compute);
  s.mlp.fc1 = norm_saved(d, recompute, shared.mlp.fc1, arena);
  s.mlp.preactivation = arena.allocate({d.tokens(), d.fc1_width()}, d.compute);
  s.mlp.activation =
      recompute == Recompute::selective ? shared.mlp.activation : arena.allocate({d.tokens(), d.ffn}, d.compute);
  return s;
}

Saved TransformerLayer::allocate_shared(const Dims& d, Recompute recompute, tensor::Arena& arena) {
  Saved s;
  if (recompute == Recompute::full) return allocate_saved(d, Recompute::none, s, arena);
  if (recompute == Recompute::selective) {
    // One buffer serves both norms: each is consumed before the other is computed.
    s.attention.qkv.normed = arena.allocate({d.tokens_local(), d.hidden}, d.compute);
    s.mlp.fc1.normed = s.attention.qkv.normed;
    s.mlp.activation = arena.allocate({d.tokens(), d.ffn}, d.compute);
  }
  return s;
}

TransformerLayer::Scratch TransformerLayer::allocate_scratch(const Dims& d, const Tensor& rope_table,
                                                             tensor::Arena& arena) {
  LinearScratch linear;
  linear.gathered = arena.allocate({d.tokens(), d.hidden}, d.compute);
  if (d.tensor > 1) linear.partial = arena.allocate({d.tokens(), d.hidden}, d.compute);
  Scratch s;
  s.attention.linear = s.mlp.linear = linear;
  s.attention.dnormed = s.mlp.dnormed = arena.allocate({d.tokens_local(), d.hidden}, d.compute);
  s.attention.dheads = arena.allocate({d.tokens(), d.q_width()}, d.compute);
  s.attention.dqkv = arena.allocate({d.tokens(), d.qkv_width()}, d.compute);
  s.attention.rope_table = rope_table;
  s.mlp.dactivation = arena.allocate({d.tokens(), d.ffn}, d.compute);
  return s;
}

TransformerLayer::Weights TransformerLayer::bind(deck::Arch arch, std::span<const Tensor> t) {
  Weights w;
  if (arch == deck::Arch::llama) {
    SHARD8_REQUIRE(t.size() == 6, "a llama layer has 6 parameters, not {}", t.size());
    w.attention.qkv = {{t[0], {}}, {t[1], {}}};
    w.attention.proj = {t[2], {}};
    w.mlp.fc1 = {{t[3], {}}, {t[4], {}}};
    w.mlp.fc2 = {t[5], {}};
  } else {
    SHARD8_REQUIRE(t.size() == 12, "a gpt2 layer has 12 parameters, not {}", t.size());
    w.attention.qkv = {{t[0], t[1]}, {t[2], t[3]}};
    w.attention.proj = {t[4], t[5]};
    w.mlp.fc1 = {{t[6], t[7]}, {t[8], t[9]}};
    w.mlp.fc2 = {t[10], t[11]};
  }
  return w;
}

TransformerLayer::Gradients TransformerLayer::bind_gradients(deck::Arch arch, std::span<const Tensor> tensors,
                                                             bool accumulate) {
  const Weights w = bind(arch, tensors);
  Gradients g;
  g.attention.qkv = {w.attention.qkv.norm, {w.attention.qkv.linear, accumulate}};
  g.attention.proj = {w.attention.proj, accumulate};
  g.mlp.fc1 = {w.mlp.fc1.norm, {w.mlp.fc1.linear, accumulate}};
  g.mlp.fc2 = {w.mlp.fc2, accumulate};
  return g;
}

}  // namespace shard8::model
