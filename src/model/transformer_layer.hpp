// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
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
  /// What forward writes for backward, in memory of LayerMemory. The caller keeps the layer's input.
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

  /// The weights or the gradients of a layer's unit, as the layer's modules read them. The entries are in the order of
  /// layer_parameters(model); Error(failed) unless there are as many. `accumulate`: see AffineGradient.
  static Weights bind(const deck::ModelConfig& model, std::span<const Weight> weights);
  static Gradients bind_gradients(const deck::ModelConfig& model, std::span<const tensor::Tensor> tensors,
                                  bool accumulate);

  /// Returns y (T_local, H) of x (T_local, H), written or as partial sums, as row_linear_forward says.
  /// Writes `saved`, and the sum of x if x is still partial sums. Collective over the tensor group, as are the other
  /// two.
  [[nodiscard]] HeldSum forward(const Context& context, const tensor::Tensor& y, const Saved& saved, HeldSum x,
                                const Weights& w, const Scratch& scratch) const;
  /// Writes `saved` a second time: forward without fc2, which backward does not need (Recompute::full).
  void recompute(const Context& context, const Saved& saved, const tensor::Tensor& x, const Weights& w,
                 const Scratch& scratch) const;
  /// Begins the backward of the layer that wrote `saved`, with dx (T_local, H), the gradient of its y. Until backward()
  /// the caller must not change dx, and must not compute a layer.
  RowBackward begin_backward(const Context& context, const tensor::Tensor& dx, const Saved& saved,
                             const Scratch& scratch) const;
  /// Goes on with `begun`. dx (T_local, H): on entry the gradient of y, on exit the gradient of x. Overwrites parts of
  /// `saved`. `next` is called once dx is the gradient of x, and before the wgrad of proj if that is deferred: it
  /// begins the gather of dx that is overlapped with the deferred wgrad.
  void backward(const Context& context, RowBackward&& begun, const tensor::Tensor& dx, const Gradients& dw,
                const tensor::Tensor& x, const Saved& saved, const Weights& w, const Scratch& scratch,
                const std::function<void()>& next) const;

 private:
  MultiheadAttention attention_;
  LayernormMlp mlp_;
};

}  // namespace shard8::model
