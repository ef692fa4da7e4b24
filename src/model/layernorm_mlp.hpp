// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/layernorm_linear.hpp"

namespace shard8::model {

/// Norm, fc1, activation (SwiGLU or GELU), fc2: y (T_local, H) = x + mlp(norm(x)).
struct LayernormMlp {
  LayernormLinear fc1;

  struct Weights {
    LayernormLinear::Weights fc1;
    LinearWeights fc2;
  };
  struct Gradients {
    LayernormLinear::Gradients fc1;
    AffineGradient fc2;
  };
  /// activation (tokens, F) and its cast are computed again in backward if fc1.recompute, where its
  /// gradient is: fc2's wgrad comes after that then. In FP8 only fc2_input.by_columns needs to survive
  /// forward otherwise.
  struct Saved {
    LayernormLinear::Saved fc1;
    tensor::Tensor preactivation;  ///< (tokens, F or 2F); overwritten by its gradient in backward
    tensor::Tensor activation;     ///< (tokens, F) in the compute dtype
    fp8::Operands fc2_input;       ///< activation itself, or cast
    fp8::Site fc2_site;
  };
  struct Scratch {
    LinearScratch linear;
    LinearScratch fc2;           ///< the same, but with fc1.recompute its output gradient lies apart
    tensor::Tensor dnormed;      ///< (T_local, H)
    tensor::Tensor dactivation;  ///< (tokens, F)
  };

  void forward(const Context& context, const tensor::Tensor& y, const Saved& saved, const tensor::Tensor& x,
               const Weights& w, const Scratch& scratch) const;
  /// forward up to the activation: all that backward needs.
  void forward_saved(const Context& context, const Saved& saved, const tensor::Tensor& x, const Weights& w,
                     const Scratch& scratch) const;
  /// dx (T_local, H): on entry the gradient of y, on exit that of x (the residual path included).
  void backward(const Context& context, const tensor::Tensor& dx, const Gradients& dw, const tensor::Tensor& x,
                const Saved& saved, const Weights& w, const Scratch& scratch) const;

 private:
  void activate(const Context& context, const Saved& saved, fp8::Quantizer::Purpose purpose) const;
  kernels::Outputs activation_again(const Context& context, const Saved& saved) const;
  OutputGradient activation_backward(const Context& context, const Saved& saved, const kernels::Outputs& again,
                                     const Scratch& scratch) const;
};

}  // namespace shard8::model
