// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "fp8/quantizer.hpp"
#include "model/products.hpp"
#include "model/sequence_parallel.hpp"
#include "tensor/arena.hpp"

// A linear layer y = x·wᵀ + bias that the T ranks of the tensor group share. All functions are collective over this
// group.
//
// column: w (out/T, in); x (T_local, in) is gathered over tokens, y (tokens, out/T).
// row:    w (out, in/T); x (tokens, in/T), the sum over ranks is scattered over tokens, y (T_local, out).
//
// x, w and dy are all plain or all in FP8. A matrix in FP8 is gathered in FP8. Error(failed) if the copy of a weight
// that a product reads was not gathered for this pass in this step.
//
// Which buffer is in use until when, as objects that hold it (model::Lease):
//
//   LinearInput, in forward         from the kernel that writes it      until the module's forward ends
//   LinearInput, in backward        from its recomputation              until RowWgrad or the module's backward ends
//   LinearScratch::gathered,        from the gather of x or dy          until the Gathering ends, which a RowBackward
//     gathered_cast                                                     or a RowWgrad has
//   LinearScratch::partial          from the product that writes        until the Scattering or HeldSum ends: the sum
//                                   partial sums                        has been read
//   LinearScratch::gradient         from the cast of dy                 until the OutputGradient, RowBackward or
//                                                                       RowWgrad ends

namespace shard8::model {

/// Memory for both copies of a matrix in FP8 (fp8::Operands). Matrices of different shapes use it one after the other.
struct CastScratch {
  fp8::CastBuffer rowwise, columnwise;  ///< the same memory if one copy serves both

  /// Memory for matrices of this role of up to `elements` elements; empty without a recipe.
  static CastScratch allocate(const fp8::Recipe& recipe, fp8::Role role, std::int64_t elements, tensor::Arena& arena);
  /// The copies of a matrix (rows, cols) in this memory, to be written. `gathered`: the tensor group will gather the
  /// matrix. Throws Error(failed) if it does not fit.
  fp8::Operands view(const fp8::Recipe& recipe, fp8::Role role, std::int64_t rows, std::int64_t cols,
                     bool gathered) const;
};

/// The input of a linear layer, which forward writes and wgrad reads.
struct LinearInput {
  tensor::Tensor plain;  ///< in the compute dtype; in backward of an input in FP8 only its recomputation may write it
  fp8::Operands copies;  ///< the input as products read it: `plain` or its cast; wgrad reads columnwise
  fp8::Site site;        ///< off where the linear is not in FP8
  /// Whether backward recomputes what wgrad reads, in memory that other layers use in between. Otherwise this layer
  /// keeps it.
  bool recomputed = false;

  LinearInput() = default;
  LinearInput(const tensor::Tensor& x) : plain(x), copies(x) {}  // NOLINT: a plain matrix is an input
  LinearInput(const fp8::Operands& cast, const fp8::Site& of) : copies(cast), site(of) {}

  /// Which passes read what forward casts.
  fp8::Quantizer::Purpose purpose() const {
    return recomputed ? fp8::Quantizer::Purpose::forward_pass : fp8::Quantizer::Purpose::both_passes;
  }
  /// Holds what a pass writes and reads.
  [[nodiscard]] Lease hold(const Context& context, std::string_view what, fsdp::Pass pass) const;
};

/// Memory that linears use one after the other. H is the number of columns of the matrices whose tokens are sharded: x
/// of a column-parallel linear, y of a row-parallel one.
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

/// The gradient of a linear's output: `copies` for the products, `plain` for the gradient of a bias. Move-only.
struct OutputGradient {
  fp8::Operands copies;
  tensor::Tensor plain;
  Lease memory;  ///< of the copies

  OutputGradient(const tensor::Tensor& just_plain) : copies(just_plain), plain(just_plain) {}  // NOLINT
  /// The gradient dy, whose casts are to be written in `scratch`. `gathered`: the tensor group will gather dy.
  OutputGradient(const Context& context, const tensor::Tensor& dy, const CastScratch& scratch, bool gathered);
};

/// dy (tokens, out/T) as the products of the column-parallel linear at `site` read it: dy itself, or its cast.
OutputGradient output_gradient(const Context& context, const fp8::Site& site, const tensor::Tensor& dy,
                               const LinearScratch& scratch);

/// Writes y (tokens, out/T) of x (T_local, in). `gather` is off, direct or ring.
void column_linear_forward(const Context& context, const tensor::Tensor& y, const fp8::Operands& x,
                           const LinearWeights& w, const LinearScratch& scratch, const TensorExchange& gather);

/// Returns the gradient of x (T_local, in) of dy (tokens, out/T), and writes the gradients in dw as AffineGradient
/// says. The returned sum is written to dx, or lies as partial sums elsewhere (start_scatter_partial_sums): the next
/// kernel must read it. x is the input shard of forward; it is gathered a second time, for wgrad. If an exchange is
/// overlapped with a product, dgrad comes before wgrad.
[[nodiscard]] Scattering column_linear_backward(const Context& context, const tensor::Tensor& dx,
                                                const AffineGradient& dw, const OutputGradient& dy,
                                                const fp8::Operands& x, const LinearWeights& w,
                                                const LinearScratch& scratch, const ColumnExchanges& exchanges);

/// Computes y = residual (T_local, out) + x·wᵀ + bias; y may be `residual`. `scatter` is off, pipeline or ring. The
/// returned y is written, or without a bias it may be partial sums, as ScatteringByParts::finish_partial_sums says.
[[nodiscard]] HeldSum row_linear_forward(const Context& context, const tensor::Tensor& y, const fp8::Operands& x,
                                         const LinearWeights& w, const tensor::Tensor& residual,
                                         const LinearScratch& scratch, const TensorExchange& scatter);

class RowWgrad;

/// The backward of a row-parallel linear, whose steps are types: a RowBackward begins, its dgrad() gives a RowWgrad,
/// and its wgrad() ends. Between them the caller may run other products. Each step uses up the object before it, so no
/// step can be left out or come twice. The objects hold what the steps to come read.
class RowBackward {
 public:
  /// Casts dy (T_local, out) if x, the input of forward (tokens, in/T), is in FP8, and begins to gather it. dy must not
  /// change until dgrad() returns. With the method bulk the gather is overlapped with what the caller computes before
  /// dgrad(), and if wgrad reads another copy of dy, the gather of that copy with what the caller computes between
  /// dgrad() and wgrad(). Otherwise no gather is overlapped. `scratch` must outlive the steps.
  RowBackward(const Context& context, const LinearInput& x, const tensor::Tensor& dy, const LinearScratch& scratch,
              const TensorExchange& gather);
  /// dy as products read it: this rank's tokens.
  const fp8::Operands& gradient() const { return dy_.copies; }
  /// Writes dx (tokens, in/T), and adds this rank's tokens to the gradient of the bias. Every tensor rank holds the
  /// bias, so the caller has to sum its gradient over the tensor group.
  [[nodiscard]] RowWgrad dgrad(const Context& context, const tensor::Tensor& dx, const AffineGradient& dw,
                               const LinearWeights& w) &&;

 private:
  friend class RowWgrad;
  void gather_columnwise(const Context& context);

  tensor::Operand x_;  ///< as wgrad reads it
  Lease input_;
  OutputGradient dy_;
  const LinearScratch* scratch_;
  TensorExchange gather_;
  std::optional<Gathering> gathering_;  ///< of the rowwise copy; after dgrad(), of the copy that wgrad reads
};

/// The last step of a row-parallel linear's backward. See RowBackward.
class RowWgrad {
 public:
  /// Writes the gradient of the weight, or adds to it (AffineGradient). x may be recomputed until now.
  void wgrad(const Context& context, const AffineGradient& dw) &&;

 private:
  friend class RowBackward;
  explicit RowWgrad(RowBackward&& begun) : begun_(std::move(begun)) {}
  RowBackward begun_;
};

/// Norm followed by a column-parallel linear layer: y (tokens, out/T) = linear(norm(x)), x (T_local, H).
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
  /// What forward writes for backward, in memory that the caller provides.
  struct Saved {
    NormStatistics statistics;
    LinearInput input;  ///< (T_local, H)
  };

  /// Writes y and `saved`, and the sum of x if x is still partial sums.
  void forward(const Context& context, const tensor::Tensor& y, const Saved& saved, HeldSum x, const Weights& w,
               const LinearScratch& scratch) const;
  /// Adds the gradient of x to dx (T_local, H), and the weights' gradients to dw as AffineGradient says. `x` and
  /// `saved` are those of forward; dnormed (T_local, H) is scratch.
  void backward(const Context& context, const tensor::Tensor& dx, const Gradients& dw, const OutputGradient& dy,
                const tensor::Tensor& x, const Saved& saved, const Weights& w, const tensor::Tensor& dnormed,
                const LinearScratch& scratch) const;

 private:
  void normalise(const Context& context, const Saved& saved, const tensor::SumOfPartials& x, const Affine& w,
                 fp8::Quantizer::Purpose purpose) const;
};

}  // namespace shard8::model
