// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/affine.hpp"
#include "model/cast_scratch.hpp"
#include "model/context.hpp"
#include "model/dims.hpp"
#include "tensor/arena.hpp"

namespace shard8::model {

/// A linear layer shared by the T ranks of the tensor group, y = x·wᵀ + bias.
///
/// column: w (out/T, in); x (T_local, in) is gathered over tokens, y (tokens, out/T).
/// row:    w (out, in/T); x (tokens, in/T), the sum over ranks is scattered over tokens, y (T_local, out).
///
/// x, w and dy are plain or all in FP8; what is gathered travels as it is.
struct LinearScratch {
  tensor::Tensor gathered;        ///< (tokens, max(in, out)) of the sharded side; on a device unused with one rank
  tensor::Tensor partial;         ///< the same; unused with one rank
  fp8::CastBuffer gathered_cast;  ///< the same in FP8
  CastScratch gradient;           ///< output gradients of this rank in FP8

  /// All but the last, of linears between activations of `hidden` columns.
  static LinearScratch allocate_exchanged(const Dims& dims, const fp8::Recipe& recipe, tensor::Arena& arena);
};

/// The gradient of a linear's output, as its products read it, and plain where there is a bias.
struct OutputGradient {
  fp8::Operands copies;
  tensor::Tensor plain;

  OutputGradient(const tensor::Tensor& just_plain) : copies(just_plain), plain(just_plain) {}  // NOLINT
  OutputGradient(const fp8::Operands& cast, const tensor::Tensor& before) : copies(cast), plain(before) {}
};

/// dy as the linear at `site` reads it: itself, or cast into scratch.gradient.
OutputGradient output_gradient(const Context& context, const fp8::Site& site, const tensor::Tensor& dy,
                               fp8::Quantizer::Tokens tokens, const LinearScratch& scratch);

void column_linear_forward(const Context& context, const tensor::Tensor& y, const fp8::Operands& x,
                           const LinearWeights& w, const LinearScratch& scratch);

/// dx (T_local, in) of dy (tokens, out/T); x is the saved input shard, gathered again for wgrad.
void column_linear_backward(const Context& context, const tensor::Tensor& dx, const AffineGradient& dw,
                            const OutputGradient& dy, const fp8::Operands& x, const LinearWeights& w,
                            const LinearScratch& scratch);

/// y = residual (T_local, out) + x·wᵀ + bias; y may be residual.
void row_linear_forward(const Context& context, const tensor::Tensor& y, const fp8::Operands& x, const LinearWeights& w,
                        const tensor::Tensor& residual, const LinearScratch& scratch);

/// dx (tokens, in/T) of dy (T_local, out), and the gradient of the bias, which is replicated: this rank's
/// tokens' part, to be summed over the tensor group. What comes back is all tokens' dy as row_linear_wgrad
/// reads it: dy, scratch.gathered and gathered_cast are not to change before that.
fp8::Operands row_linear_dgrad(const Context& context, const tensor::Tensor& dx, const AffineGradient& dw,
                               const OutputGradient& dy, const LinearWeights& w, const LinearScratch& scratch);
/// The gradient of the weight, of what row_linear_dgrad gave.
void row_linear_wgrad(const Context& context, const AffineGradient& dw, const fp8::Operands& dy, const fp8::Operands& x,
                      const LinearScratch& scratch);
/// Both, one after the other.
void row_linear_backward(const Context& context, const tensor::Tensor& dx, const AffineGradient& dw,
                         const OutputGradient& dy, const fp8::Operands& x, const LinearWeights& w,
                         const LinearScratch& scratch);

}  // namespace shard8::model
