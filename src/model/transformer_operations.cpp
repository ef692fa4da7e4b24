// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/transformer.hpp"
#include "model/unit_operations.hpp"

namespace shard8::model {

using fsdp::Pass;
using profile::Phase;

TransformerOperations::TransformerOperations(OperationWriter& out, const deck::ModelConfig& model,
                                             const fp8::Recipe& recipe, ModuleOperations& modules,
                                             WeightOperations& weights, GradientOperations& gradients)
    : out_(out), model_(model), recipe_(recipe), modules_(modules), weights_(weights), gradients_(gradients) {}

void TransformerOperations::forward_backward(bool first, bool last) {
  out_.phase = Phase::forward;
  forward_embedding();
  forward_layers();
  head(first, last);
  out_.phase = Phase::backward;
  backward_layers(first, last);
  backward_embedding(first, last);
  out_.phase = Phase::other;
}

void TransformerOperations::forward_embedding() {
  if (model_.tie_embeddings) weights_.acquire(root_unit(model_.layers), Pass::forward);
  if (has_embedding_unit(model_)) weights_.acquire(embedding_unit(), Pass::forward);
  modules_.embedding_forward();
  if (has_embedding_unit(model_)) weights_.release(embedding_unit());
}

void TransformerOperations::forward_layers() {
  for (std::int64_t layer = 0; layer < model_.layers; ++layer) {
    weights_.acquire(layer_unit(layer), Pass::forward);
    modules_.layer_forward(layer);
    weights_.release(layer_unit(layer));
  }
  modules_.layers_end();
}

void TransformerOperations::head(bool first, bool last) {
  const int root = root_unit(model_.layers);
  out_.phase = Phase::other;
  if (!model_.tie_embeddings) weights_.acquire(root, Pass::forward);
  gradients_.begin(root, first);
  modules_.head(!first);
  out_.phase = Phase::other;
  weights_.release(root);
  if (last && !model_.tie_embeddings) gradients_.reduce(root);
}

void TransformerOperations::backward_layers(bool first, bool last) {
  for (std::int64_t layer = model_.layers; layer-- > 0;) {
    const int unit = layer_unit(layer);
    const bool from_a_copy = recomputes_from_a_copy(model_, recipe_, layer);
    if (from_a_copy) {
      weights_.acquire(unit, Pass::forward);
      modules_.layer_recompute(layer);
      weights_.release(unit);
    }
    weights_.acquire(unit, Pass::backward);
    if (model_.recompute == deck::Recompute::full && !from_a_copy) modules_.layer_recompute(layer);
    gradients_.begin(unit, first);
    modules_.layer_backward(layer, !first,
                            layer > 0 ? ModuleOperations::Next::layer : ModuleOperations::Next::embedding);
    weights_.release(unit);
    if (last) gradients_.reduce(unit);
  }
}

void TransformerOperations::backward_embedding(bool first, bool last) {
  const int root = root_unit(model_.layers);
  if (model_.tie_embeddings) gradients_.begin(root, false);
  if (has_embedding_unit(model_)) gradients_.begin(embedding_unit(), first);
  modules_.embedding_backward();
  if (!last) return;
  if (model_.tie_embeddings) gradients_.reduce(root);
  if (has_embedding_unit(model_)) gradients_.reduce(embedding_unit());
}

}  // namespace shard8::model
