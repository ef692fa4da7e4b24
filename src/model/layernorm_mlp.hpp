// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/layernorm_linear.hpp"

namespace shard8::model {

/// Norm, fc1, activation (SwiGLU or GELU), fc2: y (T_local, H) = x + mlp(norm(x)), F = Dims::ffn. Collective over the
/// tensor group.
struct LayernormMlp {
  LayernormLinear fc1;
  RowExchanges fc2_exchanges = Overlap().fc2();

  struct Weights {
    LayernormLinear::Weights fc1;
    LinearWeights fc2;
  };
  struct Gradients {
    LayernormLinear::Gradients fc1;
    AffineGradient fc2;
  };
  /// What forward writes for backward, in memory that the caller provides. With fc1.recompute backward recomputes
  /// `activation` and its cast, so other modules may overwrite both in between, and fc2's wgrad runs after that.
  /// Without it, in FP8, backward does not read `activation`, and of fc2_input only by_columns.
  struct Saved {
    LayernormLinear::Saved fc1;
    tensor::Tensor preactivation;  ///< (tokens, F or 2F); overwritten by its gradient in backward
    tensor::Tensor activation;     ///< (tokens, F) in the compute dtype
    fp8::Operands fc2_input;       ///< `activation`, or its cast
    fp8::Site fc2_site;
  };
  struct Scratch {
    LinearScratch linear;
    /// For fc2: `linear`, but `gradient` is memory of its own if fc2's wgrad comes after `linear.gradient` was
    /// overwritten with the gradient of fc1's output: with fc1.recompute, or deferred. If it is deferred, the gathered
    /// matrix has memory of its own, too.
    LinearScratch fc2;
    tensor::Tensor dnormed;      ///< (T_local, H)
    tensor::Tensor dactivation;  ///< (tokens, F)
  };

  /// Returns y, written or pending as row_linear_forward says, and writes `saved`. Writes the sum of a pending x.
  tensor::PendingSum forward(const Context& context, const tensor::Tensor& y, const Saved& saved,
                             const tensor::PendingSum& x, const Weights& w, const Scratch& scratch) const;
  /// Writes only `saved`: forward without fc2.
  void forward_saved(const Context& context, const Saved& saved, const tensor::PendingSum& x, const Weights& w,
                     const Scratch& scratch) const;
  /// Begins the backward of fc2 with dx (T_local, H), the gradient of y.
  RowBackward begin_backward(const Context& context, const tensor::Tensor& dx, const Saved& saved,
                             const Scratch& scratch) const;
  /// dx (T_local, H): on entry the gradient of y, on exit the gradient of x, the residual path included. Overwrites
  /// saved.preactivation. If fc2's wgrad is deferred, the caller calls fc2.wgrad().
  void backward(const Context& context, RowBackward& fc2, const tensor::Tensor& dx, const Gradients& dw,
                const tensor::Tensor& x, const Saved& saved, const Weights& w, const Scratch& scratch) const;

 private:
  void activate(const Context& context, const Saved& saved, fp8::Quantizer::Purpose purpose) const;
  kernels::Outputs recomputed_activation(const Context& context, const Saved& saved) const;
  OutputGradient activation_backward(const Context& context, const Saved& saved, const kernels::Outputs& recomputed,
                                     const Scratch& scratch) const;
};

}  // namespace shard8::model
