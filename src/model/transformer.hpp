// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "fsdp/gradient_store.hpp"
#include "fsdp/weight_store.hpp"
#include "model/activations.hpp"
#include "model/parameters.hpp"
#include "model/products.hpp"

namespace shard8::model {

/// The order in which a step of `micro_batches` micro-batches uses the weights of units. With Recompute::full a layer
/// is recomputed just before its backward. The recomputation is a visit of its own if recomputes_in_a_visit(). The
/// experts of a layer are used after it in forward, and before it in backward.
std::vector<fsdp::Visit> visits(const deck::ModelConfig& model, const fp8::Recipe& recipe, std::int64_t micro_batches);
/// The order in which forward alone of `micro_batches` micro-batches uses the weights of units.
std::vector<fsdp::Visit> forward_visits(const deck::ModelConfig& model, std::int64_t micro_batches);
/// The order in which a micro-batch completes, and so a step reduces, the gradients of units.
std::vector<int> reductions(const deck::ModelConfig& model);
/// Whether the embedding has parameters of its own: with a tied table only if there are learned positions.
bool has_embedding_unit(const deck::ModelConfig& model);
/// Whether a layer is recomputed (Recompute::full) in a visit of its own. A layer with experts is, since its experts
/// are used between its recomputation and its backward. A layer in FP8 is, too, under a recipe with two copies of a
/// weight: the recomputation reads the copy that forward reads, which is not that of backward.
bool recomputes_in_a_visit(const deck::ModelConfig& model, const fp8::Recipe& recipe, std::int64_t layer);

/// The whole decoder over sharded weights. The model acquires a unit's weights just before it computes with them, and
/// starts the reduction of a unit's gradients as soon as they are complete.
class Transformer {
 public:
  Transformer(const deck::ModelConfig& model, const fp8::Recipe& recipe, const Dims& dims, int tensor_rank,
              Activations activations, int expert_rank = 0);

  /// Fills the rotary table, which never changes (llama). Must be called once, before the first forward.
  void prepare(const tensor::Exec& exec);

  struct MicroBatch {
    bool last = true;  ///< of the step
    float scale = 1;   ///< gradients are those of scale·Σ weight·loss
    // What experts are drawn by, if they are: see kernels::MoeDraw.
    std::int64_t step = 0, first_sequence = 0, sequence_stride = 1;
  };
  /// Forward and backward of the micro-batch that lies in Activations::tokens, targets and token_weights. Adds
  /// Σ weight·loss over its tokens to Activations::loss. The weights' store must have begun a step whose visits are
  /// visits(). After the last micro-batch the caller has to wait for the reductions (GradientStore::finish).
  /// Collective.
  void forward_backward(const Context& context, fsdp::WeightStore& weights, fsdp::GradientStore& gradients,
                        const MicroBatch& micro_batch);

  /// Forward alone, for a validation: the same work as in forward_backward(), in the same memory. Adds Σ weight·loss
  /// over the micro-batch's tokens to Activations::loss. The weights' store must have begun a step whose visits are
  /// forward_visits(). Collective.
  void forward(const Context& context, fsdp::WeightStore& weights, const MicroBatch& micro_batch);

 private:
  /// The unit that has the embedding's table.
  int table_unit() const { return model_.tie_embeddings ? root_unit(model_.layers) : embedding_unit(); }
  void forward_embedding(const Context& context, fsdp::WeightStore& weights);
  /// `counted`: Activations::balance and expert_rows are added to.
  HeldSum forward_layers(const Context& context, fsdp::WeightStore& weights, const MicroBatch& micro_batch,
                         bool counted);
  MoeMlp::Routed routed(std::int64_t layer, const MicroBatch& micro_batch, bool counted) const;
  HeldSum forward_layer_with_experts(const Context& context, fsdp::WeightStore& weights, std::int64_t layer, HeldSum x,
                                     const MoeMlp::Routed& routed);
  void backward_experts(const Context& context, fsdp::WeightStore& weights, fsdp::GradientStore& gradients,
                        const MicroBatch& micro_batch, std::int64_t layer);
  void recompute_layer(const Context& context, fsdp::WeightStore& weights, std::int64_t layer);
  std::optional<Gathering> backward_layers(const Context& context, fsdp::WeightStore& weights,
                                           fsdp::GradientStore& gradients, const MicroBatch& micro_batch);
  /// The head's weights, of the root's unit, which is in use until its release.
  LossHead::Weights head_weights(fsdp::WeightStore& weights) const;
  void head(const Context& context, fsdp::WeightStore& weights, fsdp::GradientStore& gradients,
            const MicroBatch& micro_batch, HeldSum x);
  void backward_embedding(const Context& context, std::optional<Gathering> begun, fsdp::GradientStore& gradients,
                          const MicroBatch& micro_batch);

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
