// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

#include "model/parameters.hpp"
#include "model/transformer_layer.hpp"
#include "tensor/overlay.hpp"

namespace shard8::model {

using deck::Recompute;
using tensor::DType;
using tensor::Tensor;

namespace {

using fp8::Linear;
using fp8::Role;
using Saved = TransformerLayer::Saved;
using Shared = TransformerLayer::Shared;

/// Lays out what one layer keeps.
class SavedLayout {
 public:
  SavedLayout(const Dims& dims, Recompute recompute, const fp8::Recipe& recipe, std::int64_t layer,
              const Shared& shared, tensor::Arena& arena)
      : d_(dims),
        selective_(recompute == Recompute::selective),
        recipe_(recipe),
        layer_(layer),
        shared_(shared),
        arena_(arena) {}

  Saved make() const {
    Saved s;
    s.attention.qkv = norm(Linear::qkv);
    s.attention.rotated = arena_.allocate({d_.tokens(), d_.qkv_width()}, d_.compute);
    s.attention.lse = arena_.allocate({d_.batch, d_.heads, d_.seq}, DType::fp32);
    s.attention.heads = arena_.allocate({d_.tokens(), d_.q_width()}, d_.compute);
    s.attention.proj_input = input(Linear::proj, s.attention.heads);
    s.middle = arena_.allocate({d_.tokens_local(), d_.hidden}, d_.compute);
    s.mlp.fc1 = norm(Linear::fc1);
    s.mlp.preactivation = arena_.allocate({d_.tokens(), d_.fc1_width()}, d_.compute);
    s.mlp.activation = kept(Linear::fc2, shared_.activation, d_.tokens(), d_.ffn);
    s.mlp.fc2_input = input(Linear::fc2, s.mlp.activation);
    return s;
  }

 private:
  bool cast(Linear linear) const { return recipe_.site(layer_, linear).on(); }

  LayernormLinear::Saved norm(Linear linear) const {
    LayernormLinear::Saved s;
    s.statistics = NormStatistics::allocate(d_.arch, d_.tokens_local(), arena_);
    s.normed = kept(linear, shared_.normed, d_.tokens_local(), d_.hidden);
    s.input = input(linear, s.normed);
    s.recompute = selective_;
    return s;
  }

  /// A linear's input in the compute dtype: in shared memory if backward does not read it or recomputes it.
  Tensor kept(Linear linear, const Tensor& shared, std::int64_t rows, std::int64_t cols) const {
    return selective_ || cast(linear) ? shared : arena_.allocate({rows, cols}, d_.compute);
  }

  /// A linear's input as its products read it: plain, or cast to FP8. Backward reads only the copy by columns of a
  /// cast, so only that copy has memory of its own.
  fp8::Operands input(Linear linear, const Tensor& plain) const {
    if (!cast(linear)) return plain;
    CastScratch copies = shared_.input;
    const bool gathered = d_.tensor > 1 && (linear == Linear::qkv || linear == Linear::fc1);
    if (!selective_) {
      copies.by_columns = fp8::CastBuffer(arena_, plain.count(), recipe_.by_columns(Role::input));
      if (!recipe_.two_copies(Role::input) && !recipe_.transposed(Role::input, gathered))
        copies.by_rows = copies.by_columns;
    }
    return copies.view(recipe_, Role::input, plain.rows(), plain.cols(), gathered);
  }

  const Dims& d_;
  bool selective_;
  const fp8::Recipe& recipe_;
  std::int64_t layer_;
  const Shared& shared_;
  tensor::Arena& arena_;
};

void set_sites(Saved& s, const fp8::Recipe& recipe, std::int64_t layer) {
  s.attention.qkv.site = recipe.site(layer, Linear::qkv);
  s.attention.proj_site = recipe.site(layer, Linear::proj);
  s.mlp.fc1.site = recipe.site(layer, Linear::fc1);
  s.mlp.fc2_site = recipe.site(layer, Linear::fc2);
}

}  // namespace

namespace {

void allocate_plain(Shared& shared, const Dims& d, Recompute recompute, const fp8::Recipe& recipe,
                    tensor::Arena& arena) {
  if (!recipe.on() && recompute != Recompute::selective) return;
  shared.normed = arena.allocate({d.tokens_local(), d.hidden}, d.compute);
  shared.activation = arena.allocate({d.tokens(), d.ffn}, d.compute);
}

void allocate_rest(Shared& shared, const Dims& d, Recompute recompute, const fp8::Recipe& recipe, std::int64_t layers,
                   tensor::Arena& arena) {
  const std::int64_t largest = std::max({d.tokens_local() * d.hidden, d.tokens() * d.q_width(), d.tokens() * d.ffn});
  if (recipe.two_copies(Role::input) || recipe.transposed(Role::input, false) || recompute == Recompute::selective)
    shared.input = CastScratch::allocate(recipe, Role::input, largest, arena);
  if (recompute != Recompute::full) return;
  const auto whole = [&](std::int64_t layer) {
    return SavedLayout(d, Recompute::none, recipe, layer, shared, arena).make();
  };
  if (recipe.layers < layers) shared.plain = whole(recipe.first_layer > 0 ? 0 : layers - 1);
  if (recipe.layers > 0) shared.cast = whole(recipe.first_layer);
}

/// Buffers used only in backward. Modules run one after the other, so their buffers share memory.
void allocate_backward(TransformerLayer::Scratch& s, const Dims& d, Recompute recompute, const fp8::Recipe& recipe,
                       tensor::Arena& arena) {
  const std::int64_t largest =
      std::max({d.tokens_local() * d.hidden, d.tokens() * d.qkv_width(), d.tokens() * d.fc1_width()});
  const auto gradient = [&](std::int64_t elements) {
    return CastScratch::allocate(recipe, Role::output_gradient, elements, arena);
  };
  s.attention.linear.gradient = s.mlp.linear.gradient = s.attention.proj.gradient = s.mlp.fc2.gradient =
      gradient(largest);
  // Whether the casts of the gradients of proj and fc2 need memory of their own.
  const bool gradients_apart = !LinearScratch::casts_in_place(recipe, d.tensor);
  // What a deferred wgrad reads outlives the modules that share memory below.
  if (gradients_apart && d.overlap.proj().wgrad_deferred)
    s.attention.proj.gradient = gradient(d.tokens_local() * d.hidden);
  if (gradients_apart && d.overlap.fc2().wgrad_deferred) s.mlp.fc2.gradient = gradient(d.tokens_local() * d.hidden);
  const auto dnormed = [&] { return arena.allocate({d.tokens_local(), d.hidden}, d.compute); };
  tensor::overlay(
      arena,
      [&] {
        s.mlp.dactivation = arena.allocate({d.tokens(), d.ffn}, d.compute);
        if (gradients_apart && recompute == Recompute::selective && !d.overlap.fc2().wgrad_deferred)
          s.mlp.fc2.gradient = gradient(d.tokens_local() * d.hidden);
      },
      [&] { s.mlp.dnormed = dnormed(); },
      [&] {
        s.attention.dqkv = arena.allocate({d.tokens(), d.qkv_width()}, d.compute);
        tensor::overlay(
            arena,
            [&] {
              s.attention.dheads = arena.allocate({d.tokens(), d.q_width()}, d.compute);
            },
            [&] { s.attention.dnormed = dnormed(); });
      });
}

}  // namespace

Saved TransformerLayer::allocate_saved(const Dims& d, Recompute recompute, const fp8::Recipe& recipe,
                                       std::int64_t layer, const Shared& shared, tensor::Arena& arena) {
  const bool cast = recipe.site(layer, Linear::qkv).on();
  Saved s = recompute == Recompute::full ? (cast ? shared.cast : shared.plain)
                                         : SavedLayout(d, recompute, recipe, layer, shared, arena).make();
  set_sites(s, recipe, layer);
  return s;
}

TransformerLayer::KeptBytes TransformerLayer::kept_bytes(const Saved& s, Recompute recompute) {
  const auto bytes = [](const fp8::Operands& input) {
    return input.by_columns.data.bytes() + input.by_columns.scale_inv.bytes();
  };
  const bool cast = s.attention.proj_site.on();
  if (recompute == Recompute::full) return {};
  if (recompute == Recompute::selective && cast) return {0, s.attention.heads.bytes()};
  if (recompute == Recompute::selective) return {bytes(s.attention.proj_input), 0};
  return {
      bytes(s.attention.qkv.input) + bytes(s.attention.proj_input) + bytes(s.mlp.fc1.input) + bytes(s.mlp.fc2_input),
      cast ? s.attention.heads.bytes() : 0};
}

std::pair<Shared, TransformerLayer::Scratch> TransformerLayer::allocate_scratch(
    const Dims& d, Recompute recompute, const fp8::Recipe& recipe, std::int64_t layers, const Tensor& rope_table,
    const LinearScratch& linear, const LinearScratch& second, tensor::Arena& arena) {
  Shared shared;
  Scratch s;
  s.attention.linear = s.mlp.fc2 = linear;
  s.attention.proj = s.mlp.linear = second;
  s.attention.rope_table = rope_table;
  const auto plain = [&] { allocate_plain(shared, d, recompute, recipe, arena); };
  const auto rest = [&] { allocate_rest(shared, d, recompute, recipe, layers, arena); };
  const auto backward = [&] { allocate_backward(s, d, recompute, recipe, arena); };
  // With one scale for a matrix, the kernel that recomputes a norm or an activation writes only the cast, so backward
  // needs no memory for the plain matrix.
  const bool plain_is_forward_only = recipe.per_tensor() && recipe.layers == layers;
  if (recompute == Recompute::none) {
    tensor::overlay(
        arena,
        [&] {
          plain();
          rest();
        },
        backward);
  } else if (recompute == Recompute::selective && plain_is_forward_only) {
    rest();
    tensor::overlay(arena, plain, backward);
  } else {
    plain();
    rest();
    backward();
  }
  return {std::move(shared), std::move(s)};
}

TransformerLayer::Weights TransformerLayer::bind(deck::Arch arch, std::span<const Weight> weights) {
  const BySlot<Weight> unit(layer_slots(arch), weights);
  const auto norm = [&](Slot weight, Slot bias) { return Affine{unit[weight].plain(), unit[bias].plain()}; };
  const auto linear = [&](Slot weight, Slot bias) { return LinearWeights{unit[weight], unit[bias].plain()}; };
  Weights w;
  w.attention.qkv = {norm(Slot::norm1_weight, Slot::norm1_bias), linear(Slot::qkv_weight, Slot::qkv_bias)};
  w.attention.proj = linear(Slot::proj_weight, Slot::proj_bias);
  w.mlp.fc1 = {norm(Slot::norm2_weight, Slot::norm2_bias), linear(Slot::fc1_weight, Slot::fc1_bias)};
  w.mlp.fc2 = linear(Slot::fc2_weight, Slot::fc2_bias);
  return w;
}

TransformerLayer::Gradients TransformerLayer::bind_gradients(deck::Arch arch, std::span<const Tensor> tensors,
                                                             bool accumulate) {
  const BySlot<Tensor> unit(layer_slots(arch), tensors);
  const auto norm = [&](Slot weight, Slot bias) { return Affine{unit[weight], unit[bias]}; };
  const auto linear = [&](Slot weight, Slot bias) { return AffineGradient{{unit[weight], unit[bias]}, accumulate}; };
  Gradients g;
  g.attention.qkv = {norm(Slot::norm1_weight, Slot::norm1_bias), linear(Slot::qkv_weight, Slot::qkv_bias)};
  g.attention.proj = linear(Slot::proj_weight, Slot::proj_bias);
  g.mlp.fc1 = {norm(Slot::norm2_weight, Slot::norm2_bias), linear(Slot::fc1_weight, Slot::fc1_bias)};
  g.mlp.fc2 = linear(Slot::fc2_weight, Slot::fc2_bias);
  return g;
}

}  // namespace shard8::model
