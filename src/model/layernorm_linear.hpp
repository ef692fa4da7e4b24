// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "model/linear.hpp"
#include "model/norm.hpp"

namespace shard8::model {

/// Norm followed by a column-parallel linear layer: y (tokens, out/T) = linear(norm(x)), x (T_local, H). Collective
/// over the tensor group.
struct LayernormLinear {
  Norm norm;
  ColumnExchanges exchanges = Overlap().qkv;

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

  /// Writes y and `saved`.
  void forward(const Context& context, const tensor::Tensor& y, const Saved& saved, const tensor::Tensor& x,
               const Weights& w, const LinearScratch& scratch) const;
  /// Whether begin_backward() may come before backward() with other products between them: the gather of the linear's
  /// input then runs beside these, too.
  bool begins_early(const Saved& saved) const { return exchanges.gather.hidden() && !saved.recompute; }
  /// Begins backward before there is a gradient of y. No other matrix may be gathered into `scratch` between the two.
  Gathering begin_backward(const Context& context, const tensor::Tensor& x, const Saved& saved, const Weights& w,
                           const LinearScratch& scratch) const;
  /// Adds the gradient of x to dx (T_local, H), and the weights' gradients to dw as AffineGradient says. `x` and
  /// `saved` are those of forward; dnormed (T_local, H) is scratch. `begun` is begin_backward's, if it was called.
  void backward(const Context& context, const tensor::Tensor& dx, const Gradients& dw, const OutputGradient& dy,
                const tensor::Tensor& x, const Saved& saved, const Weights& w, const tensor::Tensor& dnormed,
                const LinearScratch& scratch, std::optional<Gathering> begun = {}) const;

 private:
  void normalise(const Context& context, const Saved& saved, const tensor::Tensor& x, const Affine& w,
                 fp8::Quantizer::Purpose purpose) const;
};

}  // namespace shard8::model
