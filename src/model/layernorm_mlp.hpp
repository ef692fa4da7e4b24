// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "model/linear.hpp"

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
  /// What forward writes for backward, in memory that the caller provides.
  struct Saved {
    LayernormLinear::Saved fc1;
    tensor::Tensor preactivation;  ///< (tokens, F or 2F); overwritten by its gradient in backward
    LinearInput fc2;  ///< (tokens, F): the activation; if backward recomputes it, fc2's wgrad runs after that
  };
  struct Scratch {
    LinearScratch fc1, fc2;      ///< may have the same memory, unless fc2's wgrad is deferred or runs late, see fc2
    tensor::Tensor dnormed;      ///< (T_local, H)
    tensor::Tensor dactivation;  ///< (tokens, F)
  };

  /// Returns y, written or as partial sums, as row_linear_forward says. Writes `saved`, and the sum of x if x is still
  /// partial sums.
  [[nodiscard]] HeldSum forward(const Context& context, const tensor::Tensor& y, const Saved& saved, HeldSum x,
                                const Weights& w, const Scratch& scratch) const;
  /// Writes only `saved`: forward without fc2. Returns the lease of fc2's input.
  Lease forward_saved(const Context& context, const Saved& saved, HeldSum x, const Weights& w,
                      const Scratch& scratch) const;
  /// Begins the backward of fc2 with dx (T_local, H), the gradient of y.
  RowBackward begin_backward(const Context& context, const tensor::Tensor& dx, const Saved& saved,
                             const Scratch& scratch) const;
  /// Goes on with `fc2`. dx (T_local, H): on entry the gradient of y, on exit the gradient of x, the residual path
  /// included. Overwrites saved.preactivation. Returns the wgrad of fc2 if it is deferred.
  [[nodiscard]] std::optional<RowWgrad> backward(const Context& context, RowBackward&& fc2, const tensor::Tensor& dx,
                                                 const Gradients& dw, const tensor::Tensor& x, const Saved& saved,
                                                 const Weights& w, const Scratch& scratch) const;

 private:
  void activate(const Context& context, const Saved& saved, fp8::Quantizer::Purpose purpose) const;
  kernels::Outputs recomputed_activation(const Context& context, const Saved& saved) const;
  OutputGradient activation_backward(const Context& context, const Saved& saved, const kernels::Outputs& recomputed,
                                     const Scratch& scratch) const;
};

}  // namespace shard8::model
