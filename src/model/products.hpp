// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fsdp/weight_store.hpp"
#include "model/context.hpp"
#include "tensor/operand.hpp"

namespace shard8::model {

/// Weight and bias of a norm, or the gradients of weight and bias of a norm or linear layer. `bias` is empty where the
/// architecture has none.
struct Affine {
  tensor::Tensor weight, bias;
};

/// Gradients (fp32) of a linear layer. `accumulate`: the weight's gradient already holds a sum of this step, so the
/// product adds to it; otherwise the product overwrites it. Gradients of biases and norm weights are always added to.
struct AffineGradient {
  Affine sum;
  bool accumulate = false;
};

/// A gathered weight (out, in), plain or in FP8, as products read it: fprop reads `forward`, dgrad reads `backward`. Of
/// a weight with two copies only the copy for the current pass is gathered; the other one is empty. `stamp` says
/// whether the copies are still the ones that were gathered; a product throws Error(failed) if they are not.
struct Weight {
  tensor::Operand forward, backward;
  fsdp::CopyStamp stamp;

  Weight() = default;
  Weight(const tensor::Tensor& plain) : forward(plain), backward(plain) {}  // NOLINT: plain serves both
  Weight(const tensor::Operand& by_rows, const tensor::Operand& by_columns, const fsdp::CopyStamp& gathered)
      : forward(by_rows), backward(by_columns), stamp(gathered) {}
  /// The tensor of a parameter that is never in FP8: a norm, a bias, a table.
  const tensor::Tensor& plain() const { return forward.data; }
  /// The copy for a pass. Error(failed) if it was not gathered for this pass in this step.
  const tensor::Operand& copy_for(fsdp::Pass pass) const;
};

/// Weight and bias of a linear layer.
struct LinearWeights {
  Weight weight;
  tensor::Tensor bias;
};

// The matrix products of kernels/gemm.hpp, with its shapes, timed as gemm. The context's observer is told before each,
// and collectives under way advance after each.

/// y = x·wᵀ + bias + residual; bias and residual may be empty.
void fprop(const Context& context, const tensor::Tensor& y, const tensor::Operand& x, const Weight& w,
           const tensor::Tensor& bias, const tensor::Tensor& residual = {});
/// dx = dy·w.
void dgrad(const Context& context, const tensor::Tensor& dx, const tensor::Operand& dy, const Weight& w);
/// dw = dyᵀ·x, added to dw with `accumulate`.
void wgrad(const Context& context, const tensor::Tensor& dw, const tensor::Operand& dy, const tensor::Operand& x,
           bool accumulate);

}  // namespace shard8::model
