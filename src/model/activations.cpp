// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/activations.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/moe.hpp"
#include "tensor/arena.hpp"

// Which matrices a layer takes, and how long each one is in use:
//
//   kept      from forward to the layer's backward. Each layer has its own.
//   forward   while a module computes forward.
//   again     while a module computes forward, and again from its recomputation to its last reader in backward.
//   backward  while a module computes backward.
//   experts   while MoeMlp computes one of its functions; from backward_experts to backward, too.
//
// The matrices of all but the first are those of all layers, one after the other, and `forward`, `backward` and
// `experts` share bytes. The modules hold what they use (model::Lease): a matrix that is in use longer than this table
// says is an error of the step.
//
//                                                 recompute: none   selective          full
//   statistics of norms, unnormed, rotated qkv,
//   result and lse of attention, middle,
//   preactivation                                 kept              kept               again
//   input of a linear: plain                      kept              again              again
//   input in FP8: the plain matrix, before it
//   is cast (of proj: the result of attention)    forward           again or forward   again
//   input in FP8: the cast that wgrad reads       kept              again              again
//   input in FP8: another copy, for forward       forward           again              again
//   gradients of outputs and their casts          backward          backward           backward
//   MoeMlp: normed, routing, preactivation,
//   input of the first round or its cast          kept              kept               again
//   MoeMlp: activation or its cast                kept              experts            again
//   MoeMlp: all of MoeMlp::Scratch                experts           experts            experts
//
// "again or forward": plain_inputs_in_fp8(). What tensor ranks exchange is LinearScratch, in linear.hpp.

namespace shard8::model {

using deck::Recompute;
using fp8::Linear;
using fp8::Role;
using tensor::DType;
using tensor::MemoryKind;
using tensor::Tensor;
using Saved = TransformerLayer::Saved;

/// With one scale for a matrix, the kernel that recomputes a norm or an activation writes only the cast. Layers that
/// are not in FP8 share this memory, and recompute the plain matrix.
LayerMemory::Life LayerMemory::plain_inputs_in_fp8() const {
  if (recompute_ == Recompute::none) return Life::forward;
  const bool only_casts = recipe_.per_tensor() && recipe_.layers == layers_;
  return recompute_ == Recompute::selective && only_casts ? Life::forward : Life::again;
}

void LayerMemory::allocate_shared(Life life, tensor::Arena& arena) {
  const bool selective = recompute_ == Recompute::selective;
  if (life == plain_inputs_in_fp8() && (recipe_.on() || selective)) {
    shared_.normed = arena.allocate({d_.tokens_local(), d_.hidden}, d_.compute);
    shared_.activation = arena.allocate({d_.tokens(), d_.ffn}, d_.compute);
  }
  const bool copies = recipe_.two_copies(Role::input) || recipe_.transposed(Role::input, false);
  if (life == casts() && (copies || selective)) {
    const std::int64_t largest =
        std::max({d_.tokens_local() * d_.hidden, d_.tokens() * d_.q_width(), d_.tokens() * d_.ffn});
    shared_.input = CastScratch::allocate(recipe_, Role::input, largest, arena);
  }
}

/// What forward of a layer writes for backward: `kept` in the arena, the rest in shared memory.
Saved LayerMemory::lay_out(Recompute recompute, std::int64_t layer, tensor::Arena& arena) const {
  const bool selective = recompute == Recompute::selective;
  const auto cast = [&](LinearInput& x, Linear linear) {
    x.site = recipe_.site(layer, linear);
    x.copies = x.plain;
    if (!x.site.on()) return;
    CastScratch copies = shared_.input;
    const bool gathered = d_.tensor > 1 && (linear == Linear::qkv || linear == Linear::fc1);
    if (!selective) {
      copies.columnwise = fp8::CastBuffer(arena, x.plain.count(), recipe_.columnwise(Role::input));
      if (!recipe_.two_copies(Role::input) && !recipe_.transposed(Role::input, gathered))
        copies.rowwise = copies.columnwise;
    }
    x.copies = copies.view(recipe_, Role::input, x.plain.rows(), x.plain.cols(), gathered);
    x.recomputed = selective;
  };
  const auto input = [&](Linear linear, const Tensor& shared, std::int64_t rows, std::int64_t cols) {
    LinearInput x;
    const bool kept = !selective && !recipe_.site(layer, linear).on();
    x.plain = kept ? arena.allocate({rows, cols}, d_.compute) : shared;
    x.recomputed = selective;
    cast(x, linear);
    return x;
  };
  const auto normed = [&](Linear linear) {
    const auto statistics = NormStatistics::allocate(d_.arch, d_.tokens_local(), arena);
    return LayernormLinear::Saved{statistics, input(linear, shared_.normed, d_.tokens_local(), d_.hidden)};
  };
  Saved s;
  s.attention.qkv = normed(Linear::qkv);
  if (d_.qk_norm) s.attention.unnormed = arena.allocate({d_.tokens(), d_.qk_width()}, d_.compute);
  s.attention.rotated = arena.allocate({d_.tokens(), d_.qkv_width()}, d_.compute);
  s.attention.lse = arena.allocate({d_.batch, d_.heads, d_.seq}, DType::fp32);
  s.attention.proj.plain = arena.allocate({d_.tokens(), d_.q_width()}, d_.compute);
  cast(s.attention.proj, Linear::proj);
  s.middle = arena.allocate({d_.tokens_local(), d_.hidden}, d_.compute);
  if (d_.experts.in_layer(layer)) {
    s.moe = MoeMlp::Saved::allocate(d_, arena);
    s.moe.fc1 = recipe_.site(layer, Linear::fc1);
    s.moe.fc2 = recipe_.site(layer, Linear::fc2);
    const bool in_fp8 = s.moe.fc1.on();
    MoeMlp::Rows& rows = s.moe.rows;
    tensor::Arena& received = d_.experts.pushes ? pushed_ : arena;
    rows = MoeMlp::Rows::allocate(d_, arena, received);
    rows.allocate_input(d_, recipe_, in_fp8, arena, received);
    rows.recomputed = selective;
    if (!selective)
      rows.allocate_activation(d_, recipe_, in_fp8, arena);
    else if (in_fp8)
      rows.activation_cast = moe_.activation_cast;
    else
      rows.activation = moe_.activation;
    return s;
  }
  s.mlp.fc1 = normed(Linear::fc1);
  s.mlp.preactivation = arena.allocate({d_.tokens(), d_.fc1_width()}, d_.compute);
  s.mlp.fc2 = input(Linear::fc2, shared_.activation, d_.tokens(), d_.ffn);
  return s;
}

Saved LayerMemory::allocate_saved(std::int64_t layer, tensor::Arena& arena) const {
  if (recompute_ != Recompute::full) return lay_out(recompute_, layer, arena);
  Saved s = shared_.saved[kind_of(layer)];
  s.attention.qkv.input.site = recipe_.site(layer, Linear::qkv);
  s.attention.proj.site = recipe_.site(layer, Linear::proj);
  s.mlp.fc1.input.site = recipe_.site(layer, Linear::fc1);
  s.mlp.fc2.site = s.moe.fc2 = recipe_.site(layer, Linear::fc2);
  s.moe.fc1 = s.mlp.fc1.input.site;
  return s;
}

LayerMemory::KeptBytes LayerMemory::kept_bytes(const Saved& s, Recompute recompute) {
  KeptBytes kept;
  if (recompute == Recompute::full) return kept;
  for (const LinearInput* x : {&s.attention.qkv.input, &s.attention.proj, &s.mlp.fc1.input, &s.mlp.fc2})
    if (!x->recomputed)
      kept.linear_inputs += x->copies.columnwise.data.bytes() + x->copies.columnwise.scale_inv.bytes();
  const MoeMlp::Rows& rows = s.moe.rows;
  kept.linear_inputs += rows.input.bytes() + rows.input_cast.bytes();
  if (!rows.recomputed) kept.linear_inputs += rows.activation.bytes() + rows.activation_cast.bytes();
  if (s.attention.proj.site.on()) kept.attention_results = s.attention.proj.plain.bytes();
  return kept;
}

TransformerLayer::Scratch LayerMemory::allocate_scratch(const Tensor& rope_table, const LinearScratch& first,
                                                        const LinearScratch& second, tensor::Arena& arena) {
  TransformerLayer::Scratch s;
  s.attention.qkv = s.mlp.fc2 = first;
  s.attention.proj = s.mlp.fc1 = second;
  s.attention.rope_table = rope_table;
  allocate_shared(Life::again, arena);
  if (recompute_ == Recompute::full) {
    std::array<bool, kKinds> laid_out{};
    for (std::int64_t layer = 0; layer < layers_; ++layer)
      if (const std::size_t kind = kind_of(layer); !std::exchange(laid_out[kind], true))
        shared_.saved[kind] = lay_out(Recompute::none, layer, arena);
  }
  tensor::overlay(
      arena, [&] { allocate_shared(Life::forward, arena); },
      [&] {
        if (!d_.experts.on()) return;
        s.moe = MoeMlp::Scratch::allocate(d_, recompute_ == Recompute::selective, recipe_, arena, pushed_);
        moe_.activation = s.moe.activation;
        moe_.activation_cast = s.moe.activation_cast;
      },
      [&] {
        // Casts of the gradients of outputs: one after the other, but for those that a wgrad reads later.
        const std::int64_t largest =
            std::max({d_.tokens_local() * d_.hidden, d_.tokens() * d_.qkv_width(), d_.tokens() * d_.fc1_width()});
        s.attention.qkv.gradient = s.mlp.fc1.gradient = s.attention.proj.gradient = s.mlp.fc2.gradient =
            gradient(largest, arena);
        if (gradients_apart() && d_.overlap.proj().wgrad_deferred)
          s.attention.proj.gradient = gradient(d_.tokens_local() * d_.hidden, arena);
        if (gradients_apart() && d_.overlap.fc2().wgrad_deferred)
          s.mlp.fc2.gradient = gradient(d_.tokens_local() * d_.hidden, arena);
        tensor::overlay(
            arena, [&] { allocate_mlp_backward(s.mlp, arena); },
            [&] { allocate_attention_backward(s.attention, arena); });
      });
  return s;
}

void LayerMemory::allocate_mlp_backward(LayernormMlp::Scratch& s, tensor::Arena& arena) const {
  tensor::overlay(
      arena,
      [&] {
        s.dactivation = arena.allocate({d_.tokens(), d_.ffn}, d_.compute);
        // fc2's wgrad runs after the cast of the gradient of fc1's output.
        if (gradients_apart() && recompute_ == Recompute::selective && !d_.overlap.fc2().wgrad_deferred)
          s.fc2.gradient = gradient(d_.tokens_local() * d_.hidden, arena);
      },
      [&] {
        s.dnormed = arena.allocate({d_.tokens_local(), d_.hidden}, d_.compute);
      });
}

void LayerMemory::allocate_attention_backward(MultiheadAttention::Scratch& s, tensor::Arena& arena) const {
  s.dqkv = arena.allocate({d_.tokens(), d_.qkv_width()}, d_.compute);
  tensor::overlay(
      arena,
      [&] {
        s.dheads = arena.allocate({d_.tokens(), d_.q_width()}, d_.compute);
      },
      [&] {
        s.dnormed = arena.allocate({d_.tokens_local(), d_.hidden}, d_.compute);
      });
}

Activations Activations::allocate(const Dims& d, std::int64_t layers, Recompute recompute, const fp8::Recipe& recipe,
                                  std::size_t workspace, tensor::ArenaSet& arenas) {
  tensor::Arena& kept = arenas[MemoryKind::activations];
  tensor::Arena& scratch = arenas[MemoryKind::buffers];
  Activations a;
  if (d.arch == deck::Arch::llama) a.rope_table = scratch.allocate({2, d.seq, d.head_dim / 2}, DType::fp32);
  LinearScratch first, second;
  if (d.tensor > 1) {
    tensor::Arena& exchanged = arenas[MemoryKind::exchanged];
    first = LinearScratch::allocate_exchanged(d, recipe, exchanged);
    second = d.overlap.two_gathered() ? first.gathering_elsewhere(d, recipe, exchanged) : first;
  }
  LayerMemory memory(d, recompute, recipe, layers, arenas[MemoryKind::pushed]);
  // The head does not run while a layer does, so their scratch shares memory.
  tensor::overlay(
      scratch, [&] { a.head_scratch = LossHead::allocate_scratch(d, scratch); },
      [&] {
        if (d.tensor == 1) first = second = LinearScratch::allocate_exchanged(d, recipe, scratch);
        a.layer_scratch = memory.allocate_scratch(a.rope_table, first, second, scratch);
      });
  a.head_scratch.gathered = first.gathered;
  a.head_scratch.partial = first.partial;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const auto begin = kept.mark();
    a.residual.push_back(kept.allocate({d.tokens_local(), d.hidden}, d.compute));
    a.layers.push_back(memory.allocate_saved(layer, kept));
    a.kept.push_back(kept.since(begin));
  }
  a.residual.push_back(kept.allocate({d.tokens_local(), d.hidden}, d.compute));
  // While the embedding's gather runs, the first layer may still read `second` for the wgrad of proj.
  a.embedding_scratch.gathered = first.gathered;
  a.dresidual = scratch.allocate({d.tokens_local(), d.hidden}, d.compute);
  a.tokens = scratch.allocate({d.tokens()}, DType::i32);
  a.targets = scratch.allocate({d.tokens()}, DType::i32);
  a.token_weights = scratch.allocate({d.tokens()}, DType::fp32);
  a.loss = scratch.allocate({static_cast<std::int64_t>(sizeof(double))}, DType::u8);
  if (d.experts.on()) {
    a.balance = scratch.allocate({static_cast<std::int64_t>(sizeof(double))}, DType::u8);
    a.expert_rows = scratch.allocate({d.experts.layers, d.experts.experts + kernels::kMoeSums}, DType::i32);
  }
  a.workspace = scratch.allocate({static_cast<std::int64_t>(workspace)}, DType::u8);
  return a;
}

}  // namespace shard8::model
