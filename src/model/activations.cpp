// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/activations.hpp"

#include <tuple>

#include "tensor/overlay.hpp"

namespace shard8::model {

using tensor::DType;
using tensor::MemoryKind;

Activations Activations::allocate(const Dims& d, std::int64_t layers, deck::Recompute recompute,
                                  const fp8::Recipe& recipe, std::size_t workspace, tensor::ArenaSet& arenas) {
  tensor::Arena& kept = arenas[MemoryKind::activations];
  tensor::Arena& scratch = arenas[MemoryKind::buffers];
  Activations a;
  if (d.arch == deck::Arch::llama) a.rope_table = scratch.allocate({2, d.seq, d.head_dim / 2}, DType::fp32);
  LinearScratch linear, second;
  if (d.tensor > 1) {
    tensor::Arena& exchanged = arenas[MemoryKind::exchanged];
    linear = LinearScratch::allocate_exchanged(d, recipe, exchanged);
    second = d.overlap.two_gathered() ? linear.gathering_elsewhere(d, recipe, exchanged) : linear;
  }
  TransformerLayer::Shared shared;
  // The head does not run while a layer does, so their scratch shares memory.
  tensor::overlay(
      scratch, [&] { a.head_scratch = LossHead::allocate_scratch(d, scratch); },
      [&] {
        if (d.tensor == 1) linear = second = LinearScratch::allocate_exchanged(d, recipe, scratch);
        std::tie(shared, a.layer_scratch) =
            TransformerLayer::allocate_scratch(d, recompute, recipe, layers, a.rope_table, linear, second, scratch);
      });
  a.head_scratch.gathered = linear.gathered;
  a.head_scratch.partial = linear.partial;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const auto begin = kept.mark();
    a.residual.push_back(kept.allocate({d.tokens_local(), d.hidden}, d.compute));
    a.layers.push_back(TransformerLayer::allocate_saved(d, recompute, recipe, layer, shared, kept));
    a.kept.push_back(kept.since(begin));
  }
  a.residual.push_back(kept.allocate({d.tokens_local(), d.hidden}, d.compute));
  // While the embedding's gather runs, the first layer may still read `second` for the wgrad of proj.
  a.embedding_scratch.gathered = linear.gathered;
  a.dresidual = scratch.allocate({d.tokens_local(), d.hidden}, d.compute);
  a.tokens = scratch.allocate({d.tokens()}, DType::i32);
  a.targets = scratch.allocate({d.tokens()}, DType::i32);
  a.token_weights = scratch.allocate({d.tokens()}, DType::fp32);
  a.loss = scratch.allocate({static_cast<std::int64_t>(sizeof(double))}, DType::u8);
  a.workspace = scratch.allocate({static_cast<std::int64_t>(workspace)}, DType::u8);
  return a;
}

}  // namespace shard8::model
