// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fp8/cast_buffer.hpp"
#include "fp8/quantizer.hpp"
#include "model/affine.hpp"
#include "model/context.hpp"
#include "model/dims.hpp"
#include "tensor/arena.hpp"

namespace shard8::model {

/// Memory for both copies of a matrix in FP8. Matrices of different shapes use it one after the other.
struct CastScratch {
  fp8::CastBuffer by_rows, by_columns;  ///< the same memory if one copy serves both

  /// For matrices of this role of up to `elements` elements; empty without a recipe.
  static CastScratch allocate(const fp8::Recipe& recipe, fp8::Role role, std::int64_t elements, tensor::Arena& arena);
  /// The copies of a matrix (rows, cols). `gathered`: it will be gathered over the tensor group.
  fp8::Operands view(const fp8::Recipe& recipe, fp8::Role role, std::int64_t rows, std::int64_t cols,
                     bool gathered) const;
};

/// A linear layer shared by the T ranks of the tensor group, y = x·wᵀ + bias.
///
/// column: w (out/T, in); x (T_local, in) is gathered over tokens, y (tokens, out/T).
/// row:    w (out, in/T); x (tokens, in/T), the sum over ranks is scattered over tokens, y (T_local, out).
///
/// x, w and dy are all plain or all in FP8. A matrix in FP8 is gathered in FP8.
struct LinearScratch {
  tensor::Tensor gathered;        ///< (tokens, max(in, out)) of the sharded side; unused on a device with one rank
  tensor::Tensor partial;         ///< sums of this rank before a reduce-scatter, as large; unused with one rank
  fp8::CastBuffer gathered_cast;  ///< gathered matrices in FP8
  CastScratch gradient;           ///< output gradients of this rank in FP8

  /// All members but `gradient`, for linears whose sharded side has `dims.hidden` columns.
  static LinearScratch allocate_exchanged(const Dims& dims, const fp8::Recipe& recipe, tensor::Arena& arena);
};

/// The gradient of a linear's output: `copies` for the products, `plain` for the gradient of a bias.
struct OutputGradient {
  fp8::Operands copies;
  tensor::Tensor plain;

  OutputGradient(const tensor::Tensor& just_plain) : copies(just_plain), plain(just_plain) {}  // NOLINT
  OutputGradient(const fp8::Operands& cast, const tensor::Tensor& before) : copies(cast), plain(before) {}
};

/// dy as the products of the linear at `site` read it: dy itself, or its cast in scratch.gradient.
OutputGradient output_gradient(const Context& context, const fp8::Site& site, const tensor::Tensor& dy,
                               fp8::Quantizer::Tokens tokens, const LinearScratch& scratch);

void column_linear_forward(const Context& context, const tensor::Tensor& y, const fp8::Operands& x,
                           const LinearWeights& w, const LinearScratch& scratch);

/// dx (T_local, in) of dy (tokens, out/T); x is the saved input shard, which is gathered a second time, for wgrad.
void column_linear_backward(const Context& context, const tensor::Tensor& dx, const AffineGradient& dw,
                            const OutputGradient& dy, const fp8::Operands& x, const LinearWeights& w,
                            const LinearScratch& scratch);

/// y = residual (T_local, out) + x·wᵀ + bias; y may be residual.
void row_linear_forward(const Context& context, const tensor::Tensor& y, const fp8::Operands& x, const LinearWeights& w,
                        const tensor::Tensor& residual, const LinearScratch& scratch);

/// Writes dx (tokens, in/T) of dy (T_local, out), and adds this rank's tokens to the gradient of the bias. Every tensor
/// rank holds the bias, so the caller has to sum its gradient over the tensor group. Returns the gathered dy for
/// row_linear_wgrad; until then dy, scratch.gathered and scratch.gathered_cast must not change.
fp8::Operands row_linear_dgrad(const Context& context, const tensor::Tensor& dx, const AffineGradient& dw,
                               const OutputGradient& dy, const LinearWeights& w, const LinearScratch& scratch);
/// Writes the gradient of the weight. `dy` is what row_linear_dgrad returned.
void row_linear_wgrad(const Context& context, const AffineGradient& dw, const fp8::Operands& dy, const fp8::Operands& x,
                      const LinearScratch& scratch);
/// row_linear_dgrad, then row_linear_wgrad.
void row_linear_backward(const Context& context, const tensor::Tensor& dx, const AffineGradient& dw,
                         const OutputGradient& dy, const fp8::Operands& x, const LinearWeights& w,
                         const LinearScratch& scratch);

}  // namespace shard8::model
