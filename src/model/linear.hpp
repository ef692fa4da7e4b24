// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/affine.hpp"
#include "model/context.hpp"

namespace shard8::model {

/// A linear layer shared by the T ranks of the tensor group, y = x·wᵀ + bias.
///
/// column: w (out/T, in); x (T_local, in) is gathered over tokens, y (tokens, out/T).
/// row:    w (out, in/T); x (tokens, in/T), the sum over ranks is scattered over tokens, y (T_local, out).
struct LinearScratch {
  tensor::Tensor gathered;  ///< (tokens, max(in, out)) of the sharded side; unused with one rank
  tensor::Tensor partial;   ///< the same; unused with one rank
};

void column_linear_forward(const Context& context, const tensor::Tensor& y, const tensor::Tensor& x, const Affine& w,
                           const LinearScratch& scratch);

/// dx (T_local, in) of dy (tokens, out/T); x is the saved input shard, gathered again for wgrad.
void column_linear_backward(const Context& context, const tensor::Tensor& dx, const AffineGradient& dw,
                            const tensor::Tensor& dy, const tensor::Tensor& x, const Affine& w,
                            const LinearScratch& scratch);

/// y = residual (T_local, out) + x·wᵀ + bias; y may be residual.
void row_linear_forward(const Context& context, const tensor::Tensor& y, const tensor::Tensor& x, const Affine& w,
                        const tensor::Tensor& residual, const LinearScratch& scratch);

/// dx (tokens, in/T) of dy (T_local, out). The bias is replicated: its gradient is this rank's
/// tokens' part, to be summed over the tensor group.
void row_linear_backward(const Context& context, const tensor::Tensor& dx, const AffineGradient& dw,
                         const tensor::Tensor& dy, const tensor::Tensor& x, const Affine& w,
                         const LinearScratch& scratch);

}  // namespace shard8::model
