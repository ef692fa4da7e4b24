// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/linear.hpp"
#include "model/norm.hpp"

namespace shard8::model {

/// Norm followed by a column-parallel linear layer: y (tokens, out/T) of x (T_local, H).
struct LayernormLinear {
  Norm norm;

  struct Weights {
    Affine norm;
    LinearWeights linear;
  };
  struct Gradients {
    Affine norm;
    AffineGradient linear;
  };
  /// What forward writes for backward. With `recompute` backward recomputes `normed` and its cast, so they may be
  /// overwritten in between. In FP8 backward reads only input.by_columns, so the rest may be overwritten.
  struct Saved {
    NormStatistics statistics;
    tensor::Tensor normed;  ///< in the compute dtype
    fp8::Operands input;    ///< of the linear: `normed`, or its cast
    fp8::Site site;
    bool recompute = false;
  };

  void forward(const Context& context, const tensor::Tensor& y, const Saved& saved, const tensor::Tensor& x,
               const Weights& w, const LinearScratch& scratch) const;
  /// dx (T_local, H) += the module's input gradient; dnormed (T_local, H) is scratch.
  void backward(const Context& context, const tensor::Tensor& dx, const Gradients& dw, const OutputGradient& dy,
                const tensor::Tensor& x, const Saved& saved, const Weights& w, const tensor::Tensor& dnormed,
                const LinearScratch& scratch) const;

 private:
  void normalise(const Context& context, const Saved& saved, const tensor::Tensor& x, const Affine& w,
                 fp8::Quantizer::Purpose purpose) const;
};

}  // namespace shard8::model
