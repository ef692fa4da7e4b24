// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "fsdp/gradient_store.hpp"
#include "model/activations.hpp"
#include "model/context.hpp"
#include "model/parameters.hpp"
#include "model/unit_weights.hpp"

namespace shard8::model {

/// The order in which a step of so many micro-batches uses the weights of units. Recompute::full uses
/// a layer's weights as forward does once more, just before backward: a visit of its own where those
/// are another copy.
std::vector<fsdp::Visit> visits(const deck::ModelConfig& model, const fp8::Recipe& recipe, std::int64_t micro_batches);
/// The order in which a step reduces the gradients of units.
std::vector<int> reductions(const deck::ModelConfig& model);
/// Whether the embedding has parameters of its own: with a tied table only if there are learned positions.
bool has_embedding_unit(const deck::ModelConfig& model);
/// Whether a layer is recomputed from the copy of its weights that forward reads, while backward reads another.
bool recomputes_from_a_copy(const deck::ModelConfig& model, const fp8::Recipe& recipe, std::int64_t layer);

/// The whole decoder over sharded weights: asks for each unit's weights when it needs them and
/// hands each unit's gradients over when they are complete.
class Transformer {
 public:
  Transformer(const deck::ModelConfig& model, const fp8::Recipe& recipe, const Dims& dims, int tensor_rank,
              Activations activations);

  /// Fills what never changes (rotary table).
  void prepare(const tensor::Exec& exec);

  struct MicroBatch {
    bool first = true, last = true;  ///< of the step
    float scale = 1;                 ///< gradients are those of scale·Σ token losses
  };
  /// Forward and backward of the tokens in activations(), whose `loss` Σ weight·loss of this data rank is
  /// added to.
  void forward_backward(const Context& context, UnitWeights weights, fsdp::GradientStore& gradients,
                        const MicroBatch& micro_batch);

  Activations& activations() { return activations_; }
  const Dims& dims() const { return dims_; }

 private:
  void forward_embedding(const Context& context, UnitWeights& weights);
  void forward_layers(const Context& context, UnitWeights& weights);
  void recompute_layer(const Context& context, UnitWeights& weights, std::int64_t layer);
  void backward_layers(const Context& context, UnitWeights& weights, fsdp::GradientStore& gradients,
                       const MicroBatch& micro_batch);
  void head(const Context& context, UnitWeights& weights, fsdp::GradientStore& gradients,
            const MicroBatch& micro_batch);
  void backward_embedding(const Context& context, fsdp::GradientStore& gradients, const MicroBatch& micro_batch);

  deck::ModelConfig model_;
  fp8::Recipe recipe_;
  Dims dims_;
  Activations activations_;
  Embedding embedding_;
  TransformerLayer layer_;
  LossHead head_;
  bool embedding_has_parameters_;
};

}  // namespace shard8::model
