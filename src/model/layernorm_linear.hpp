// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/linear.hpp"
#include "model/norm.hpp"

namespace shard8::model {

/// Norm followed by a column-parallel linear layer: y (tokens, out/T) = linear(norm(x)), x (T_local, H). Collective
/// over the tensor group.
struct LayernormLinear {
  Norm norm;
  ColumnExchanges exchanges = Overlap().qkv();

  struct Weights {
    Affine norm;
    LinearWeights linear;
  };
  struct Gradients {
    Affine norm;
    AffineGradient linear;
  };
  /// What forward writes for backward, in memory that the caller provides. With `recompute` backward recomputes
  /// `normed` and its cast, so other modules may overwrite both in between. Without it, in FP8, backward reads only the
  /// statistics and input.by_columns, so other modules may overwrite the rest.
  struct Saved {
    NormStatistics statistics;
    tensor::Tensor normed;  ///< in the compute dtype
    fp8::Operands input;    ///< of the linear: `normed`, or its cast
    fp8::Site site;         ///< of the linear's input; off where the linear is not in FP8
    bool recompute = false;
  };

  /// Writes y and `saved`, and the sum of a pending x.
  void forward(const Context& context, const tensor::Tensor& y, const Saved& saved, const tensor::PendingSum& x,
               const Weights& w, const LinearScratch& scratch) const;
  /// Adds the gradient of x to dx (T_local, H), and the weights' gradients to dw as AffineGradient says. `x` and
  /// `saved` are those of forward; dnormed (T_local, H) is scratch.
  void backward(const Context& context, const tensor::Tensor& dx, const Gradients& dw, const OutputGradient& dy,
                const tensor::Tensor& x, const Saved& saved, const Weights& w, const tensor::Tensor& dnormed,
                const LinearScratch& scratch) const;

 private:
  void normalise(const Context& context, const Saved& saved, const tensor::PendingSum& x, const Affine& w,
                 fp8::Quantizer::Purpose purpose) const;
};

}  // namespace shard8::model
