// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <utility>

#include "model/dims.hpp"
#include "model/layernorm_mlp.hpp"
#include "model/multihead_attention.hpp"
#include "tensor/arena.hpp"

namespace shard8::model {

/// One pre-norm transformer layer: attention and MLP, each with its residual.
class TransformerLayer {
 public:
  explicit TransformerLayer(const Dims& dims);

  struct Weights {
    MultiheadAttention::Weights attention;
    LayernormMlp::Weights mlp;
  };
  struct Gradients {
    MultiheadAttention::Gradients attention;
    LayernormMlp::Gradients mlp;
  };
  /// What a layer keeps from forward to backward. The caller keeps the layer's input.
  struct Saved {
    MultiheadAttention::Saved attention;
    tensor::Tensor middle;  ///< (T_local, H), between attention and MLP
    LayernormMlp::Saved mlp;
  };
  /// Shared by all layers.
  struct Scratch {
    MultiheadAttention::Scratch attention;
    LayernormMlp::Scratch mlp;
  };

  /// Memory that all layers use in turn, for what backward does not read or recomputes.
  struct Shared {
    Saved plain, cast;          ///< with Recompute::full: all of a layer in the compute dtype, and of one in FP8
    tensor::Tensor normed;      ///< (T_local, H), with Recompute::selective or FP8
    tensor::Tensor activation;  ///< (tokens, F), with Recompute::selective or FP8
    CastScratch input;          ///< inputs of linears in FP8 that are not kept
  };
  /// The shared memory and the scratch of `layers` layers, whose linears gather and reduce in `linear`. Buffers used
  /// only in backward share memory with buffers used only in forward.
  static std::pair<Shared, Scratch> allocate_scratch(const Dims& dims, deck::Recompute recompute,
                                                     const fp8::Recipe& recipe, std::int64_t layers,
                                                     const tensor::Tensor& rope_table, const LinearScratch& linear,
                                                     tensor::Arena& arena);
  /// Allocates what a layer keeps under `recompute`; the rest lies in `shared`.
  static Saved allocate_saved(const Dims& dims, deck::Recompute recompute, const fp8::Recipe& recipe,
                              std::int64_t layer, const Shared& shared, tensor::Arena& arena);
  /// Bytes of some of what allocate_saved allocates: the inputs of a layer's linears, for their wgrad, and attention's
  /// result where proj reads a cast of it, so that it is kept for attention's backward alone.
  struct KeptBytes {
    std::size_t linear_inputs = 0, attention_results = 0;
  };
  static KeptBytes kept_bytes(const Saved& saved, deck::Recompute recompute);

  /// A layer's unit, whose parameters are in the order of layer_slots(arch), as the layer's modules read it.
  static Weights bind(deck::Arch arch, std::span<const Weight> weights);
  static Gradients bind_gradients(deck::Arch arch, std::span<const tensor::Tensor> tensors, bool accumulate);

  /// Writes y (T_local, H) of x (T_local, H), and `saved`.
  void forward(const Context& context, const tensor::Tensor& y, const Saved& saved, const tensor::Tensor& x,
               const Weights& w, const Scratch& scratch) const;
  /// The part of forward that backward needs, a second time (Recompute::full).
  void recompute(const Context& context, const Saved& saved, const tensor::Tensor& x, const Weights& w,
                 const Scratch& scratch) const;
  /// dx (T_local, H): on entry the gradient of y, on exit that of x.
  void backward(const Context& context, const tensor::Tensor& dx, const Gradients& dw, const tensor::Tensor& x,
                const Saved& saved, const Weights& w, const Scratch& scratch) const;

 private:
  MultiheadAttention attention_;
  LayernormMlp mlp_;
};

}  // namespace shard8::model
