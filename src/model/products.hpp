// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fsdp/weight_forms.hpp"
#include "kernels/grouped_gemm.hpp"
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
/// whether the copies are still the ones that were gathered; copy_for() throws Error(failed) if they are not.
using Weight = fsdp::GatheredWeight;

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

/// Some of the groups of rows that a grouped product multiplies, consecutive ones.
struct GroupPart {
  kernels::RowGroups groups;        ///< of the part
  std::int64_t first = 0, all = 0;  ///< its first group, and how many groups there are without regard to parts
  /// Tokens of the part that descriptions of products have: a device may alone know how many there are.
  std::int64_t tokens = 0;
  int spared = 0;  ///< on a device: multiprocessors that the product leaves to other kernels

  std::int64_t count() const { return groups.rows.count(); }
  /// Of `n` that all groups have in equal shares, what the part has. The shares of all parts add up to n.
  std::int64_t share_of(std::int64_t n) const { return n * (first + count()) / all - n * first / all; }
};

// The products of kernels/grouped_gemm.hpp for a part of the groups. Shapes are those of all groups.

void grouped_fprop(const Context& context, const tensor::Tensor& y, const tensor::Operand& x, const Weight& w,
                   const GroupPart& part);
void grouped_dgrad(const Context& context, const tensor::Tensor& dx, const tensor::Operand& dy, const Weight& w,
                   const GroupPart& part);
void grouped_wgrad(const Context& context, const tensor::Tensor& dw, const tensor::Operand& dy,
                   const tensor::Operand& x, const GroupPart& part, bool accumulate);

}  // namespace shard8::model
