// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fp8/quantizer.hpp"
#include "model/affine.hpp"
#include "model/context.hpp"
#include "model/dims.hpp"
#include "model/overlap.hpp"
#include "model/sequence_parallel.hpp"
#include "tensor/arena.hpp"

namespace shard8::model {

/// Memory for both copies of a matrix in FP8 (fp8::Operands). Matrices of different shapes use it one after the other.
struct CastScratch {
  fp8::CastBuffer by_rows, by_columns;  ///< the same memory if one copy serves both

  /// For matrices of this role of up to `elements` elements; empty without a recipe.
  static CastScratch allocate(const fp8::Recipe& recipe, fp8::Role role, std::int64_t elements, tensor::Arena& arena);
  /// The copies of a matrix (rows, cols) in this memory, to be written. `gathered`: the tensor group will gather the
  /// matrix. Throws Error(failed) if it does not fit.
  fp8::Operands view(const fp8::Recipe& recipe, fp8::Role role, std::int64_t rows, std::int64_t cols,
                     bool gathered) const;
};

// The functions below compute a linear layer y = x·wᵀ + bias that the T ranks of the tensor group share. All are
// collective over this group.
//
// column: w (out/T, in); x (T_local, in) is gathered over tokens, y (tokens, out/T).
// row:    w (out, in/T); x (tokens, in/T), the sum over ranks is scattered over tokens, y (T_local, out).
//
// x, w and dy are all plain or all in FP8. A matrix in FP8 is gathered in FP8. Error(failed) if the copy of a weight
// that a product reads was not gathered for this pass in this step.

/// Memory that linears use one after the other. Its contents are lost at the next call, unless a comment says
/// otherwise. H is the number of columns of the matrices whose tokens are sharded: x of a column-parallel linear, y of
/// a row-parallel one.
struct LinearScratch {
  tensor::Tensor gathered;        ///< (tokens, H): a gathered x or dy, or y before bias and residual are added
  tensor::Tensor partial;         ///< (tokens, H): sums of this rank before a reduce-scatter; empty with one rank
  fp8::CastBuffer gathered_cast;  ///< a gathered x or dy in FP8; empty with one rank
  CastScratch gradient;           ///< this rank's dy in FP8, unless it is cast into gathered_cast

  /// All members but `gradient`, with H = dims.hidden. On a device with one rank `gathered` is empty.
  static LinearScratch allocate_exchanged(const Dims& dims, const fp8::Recipe& recipe, tensor::Arena& arena);
  /// This memory, but with other memory for gathered matrices: what one linear gathers there stays while other linears
  /// use this.
  LinearScratch gathering_elsewhere(const Dims& dims, const fp8::Recipe& recipe, tensor::Arena& arena) const;

  /// Whether a rank casts its part of a matrix, which `ranks` ranks will gather, to its place in gathered_cast. Then
  /// the gather copies nothing within the rank. With block scales a matrix has two copies, which are gathered into this
  /// memory one after the other, so the casts need memory of their own.
  static bool casts_in_place(const fp8::Recipe& recipe, int ranks) { return ranks > 1 && recipe.per_tensor(); }
  /// The place of this part (rows, cols), of rank `rank`, in gathered_cast.
  tensor::Operand place_of_cast(const fp8::Recipe& recipe, fp8::Role role, std::int64_t rows, std::int64_t cols,
                                int rank, int ranks) const;
};

/// The gradient of a linear's output: `copies` for the products, `plain` for the gradient of a bias.
struct OutputGradient {
  fp8::Operands copies;
  tensor::Tensor plain;

  OutputGradient(const tensor::Tensor& just_plain) : copies(just_plain), plain(just_plain) {}  // NOLINT
  OutputGradient(const fp8::Operands& cast, const tensor::Tensor& before) : copies(cast), plain(before) {}
};

/// dy as the products of the linear at `site` read it: dy itself, or its cast, which it writes to scratch.gradient, or
/// to its place in scratch.gathered_cast (LinearScratch::casts_in_place). In the latter case all products that read
/// that buffer must have been issued before, and RowBackward must be made before another matrix is gathered there.
/// `tokens`: all for a column-parallel linear's dy, part for a row-parallel one's.
OutputGradient output_gradient(const Context& context, const fp8::Site& site, const tensor::Tensor& dy,
                               fp8::Quantizer::Tokens tokens, const LinearScratch& scratch);

/// Writes y (tokens, out/T) of x (T_local, in). `gather` is off, direct or ring.
void column_linear_forward(const Context& context, const tensor::Tensor& y, const fp8::Operands& x,
                           const LinearWeights& w, const LinearScratch& scratch, const TensorExchange& gather);

/// Returns the gradient of x (T_local, in) of dy (tokens, out/T), and writes the gradients in dw as AffineGradient
/// says. The returned sum is written to dx, or lies as summands in memory of the exchange and in scratch.partial, as
/// start_scatter_summands says: the next kernel must read it. x is the input shard of forward; it is gathered a second
/// time, for wgrad. If an exchange runs beside a product, dgrad comes before wgrad.
tensor::Summands column_linear_backward(const Context& context, const tensor::Tensor& dx, const AffineGradient& dw,
                                        const OutputGradient& dy, const fp8::Operands& x, const LinearWeights& w,
                                        const LinearScratch& scratch, const ColumnExchanges& exchanges);

/// Computes y = residual (T_local, out) + x·wᵀ + bias; y may be `residual`. `scatter` is off, pipeline or ring. The
/// returned y is written, or without a bias it may be pending, as ScatteringByParts::finish_pending says. Until it is
/// made `residual` must not change.
[[nodiscard]] tensor::PendingSum row_linear_forward(const Context& context, const tensor::Tensor& y,
                                                    const fp8::Operands& x, const LinearWeights& w,
                                                    const tensor::Tensor& residual, const LinearScratch& scratch,
                                                    const TensorExchange& scatter);

/// The backward of a row-parallel linear in three steps, between which the caller may run other products: the
/// constructor, dgrad() and wgrad(). Until wgrad() returns, the copies of dy and scratch.gathered or
/// scratch.gathered_cast must not change; until dgrad() returns, dy.plain must not.
class RowBackward {
 public:
  /// Begins to gather dy (T_local, out). With the method bulk the gather runs beside what the caller computes before
  /// dgrad(), and if wgrad reads another copy of dy, its gather runs beside what the caller computes between dgrad()
  /// and wgrad(); else each gather runs alone. `scratch` must outlive this object.
  RowBackward(const Context& context, const OutputGradient& dy, const LinearScratch& scratch,
              const TensorExchange& gather);
  /// Writes dx (tokens, in/T), and adds this rank's tokens to the gradient of the bias. Every tensor rank holds the
  /// bias, so the caller has to sum its gradient over the tensor group.
  void dgrad(const Context& context, const tensor::Tensor& dx, const AffineGradient& dw, const LinearWeights& w);
  /// Writes the gradient of the weight, or adds to it (AffineGradient). x (tokens, in/T) is the input of forward.
  void wgrad(const Context& context, const AffineGradient& dw, const fp8::Operands& x);

 private:
  OutputGradient dy_;
  const LinearScratch* scratch_;
  TensorExchange gather_;
  Gathering gathering_;  ///< of the copy by rows; after dgrad(), of the copy that wgrad reads
};

}  // namespace shard8::model
