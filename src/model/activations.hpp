// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <vector>

#include "model/transformer_layer.hpp"
#include "model/vocabulary.hpp"
#include "tensor/arena.hpp"

namespace shard8::model {

/// The memory of a model's layers. What a layer takes, for how long and for which options, is at the top of
/// activations.cpp.
class LayerMemory {
 public:
  /// `layers`: layers of the model. `pushed` is memory that the ranks of an expert group write, if they push rows.
  LayerMemory(const Dims& dims, deck::Recompute recompute, const fp8::Recipe& recipe, std::int64_t layers,
              tensor::Arena& pushed)
      : d_(dims), recompute_(recompute), recipe_(recipe), layers_(layers), pushed_(pushed) {}

  /// Allocates what layers use one after the other, and returns the part that is scratch. To be called once, before
  /// allocate_saved(). The layers' linears gather and reduce in the memory of `first` (qkv, fc2) and of `second` (proj,
  /// fc1), which may be the same unless Overlap::two_gathered().
  TransformerLayer::Scratch allocate_scratch(const tensor::Tensor& rope_table, const LinearScratch& first,
                                             const LinearScratch& second, tensor::Arena& arena);
  /// Allocates from `arena` what layer `layer` keeps; the rest of the result is memory that all layers use.
  TransformerLayer::Saved allocate_saved(std::int64_t layer, tensor::Arena& arena) const;

  /// Bytes of two parts of what allocate_saved allocates. linear_inputs: the inputs of the layer's linears, which wgrad
  /// reads. attention_results: attention's result, where proj reads a cast of it, so that only attention's backward
  /// reads it. Both parts are 0 with Recompute::full.
  struct KeptBytes {
    std::size_t linear_inputs = 0, attention_results = 0;
  };
  static KeptBytes kept_bytes(const TransformerLayer::Saved& saved, deck::Recompute recompute);

 private:
  /// How long matrices that layers share are in use. See activations.cpp.
  enum class Life : std::uint8_t { forward, again };
  Life plain_inputs_in_fp8() const;
  /// Layers of a kind have equal matrices: with or without experts, in FP8 or not.
  static constexpr std::size_t kKinds = 4;
  std::size_t kind_of(std::int64_t layer) const {
    return (d_.experts.in_layer(layer) ? 2u : 0u) + (recipe_.site(layer, fp8::Linear::qkv).on() ? 1u : 0u);
  }
  /// The life of casts that are not kept.
  Life casts() const { return recompute_ == deck::Recompute::none ? Life::forward : Life::again; }
  /// Allocates the shared matrices with this life.
  void allocate_shared(Life life, tensor::Arena& arena);
  TransformerLayer::Saved lay_out(deck::Recompute recompute, std::int64_t layer, tensor::Arena& arena) const;
  void allocate_attention_backward(MultiheadAttention::Scratch& s, tensor::Arena& arena) const;
  void allocate_mlp_backward(LayernormMlp::Scratch& s, tensor::Arena& arena) const;
  CastScratch gradient(std::int64_t elements, tensor::Arena& arena) const {
    return CastScratch::allocate(recipe_, fp8::Role::output_gradient, elements, arena);
  }
  /// Whether the casts of the gradients of proj and fc2 need memory of their own.
  bool gradients_apart() const { return !LinearScratch::casts_in_place(recipe_, d_.tensor); }

  Dims d_;
  deck::Recompute recompute_;
  fp8::Recipe recipe_;
  std::int64_t layers_;
  tensor::Arena& pushed_;
  struct {
    tensor::Tensor normed, activation;  ///< (T_local, H), (tokens, F): inputs of linears in the compute dtype
    CastScratch input;                  ///< casts of inputs
    std::array<TransformerLayer::Saved, kKinds> saved;  ///< with Recompute::full: all that forward writes for backward
  } shared_;                                            ///< by all layers; what a deck does not need is empty
  struct {
    tensor::Tensor activation;
    fp8::CastBuffer activation_cast;
  } moe_;  ///< of MoeMlp::Scratch
};

/// All memory of one micro-batch for activations and scratch. The memory is laid out once and used for every
/// micro-batch. T_local = Dims::tokens_local(), tokens = Dims::tokens(), H = hidden; tensors are in the compute dtype
/// unless they say otherwise.
struct Activations {
  std::vector<tensor::Tensor> residual;  ///< layers + 1 tensors (T_local, H): inputs of the layers and of the root
  std::vector<TransformerLayer::Saved> layers;  ///< one a layer
  std::vector<tensor::Tensor> kept;  ///< one a layer, u8: the bytes of its input and of what only this layer saves
  TransformerLayer::Scratch layer_scratch;
  Embedding::Scratch embedding_scratch;
  LossHead::Scratch head_scratch;
  tensor::Tensor dresidual;                       ///< (T_local, H), gradient of the residual stream
  tensor::Tensor tokens, targets, token_weights;  ///< (tokens) i32, i32, fp32
  tensor::Tensor rope_table;                      ///< (2, seq, head_dim/2) fp32, llama
  tensor::Tensor loss;     ///< sum of weight·loss over this step's micro-batches so far: a double as 8 bytes of u8
  tensor::Tensor balance;  ///< the same sum of the balance of experts, over sequences and layers; empty without experts
  /// (layers with experts, experts + kernels::kMoeSums) i32: this step's rows so far, of this rank's tokens, and the
  /// other sums of kernels::moe_count().
  tensor::Tensor expert_rows;
  tensor::Tensor workspace;  ///< u8: the memory of Context::workspace

  /// Takes all memory from `arenas`: what is kept from forward to backward from the kind activations, what tensor ranks
  /// exchange from exchanged, what experts' ranks push from pushed, the rest from buffers. Nothing is filled. `layers`:
  /// layers of the model. `workspace`: its bytes.
  static Activations allocate(const Dims& dims, std::int64_t layers, deck::Recompute recompute,
                              const fp8::Recipe& recipe, std::size_t workspace, tensor::ArenaSet& arenas);
};

}  // namespace shard8::model
