// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "kernels/attention.hpp"
#include "model/linear.hpp"

namespace shard8::model {

/// Causal attention of this rank's heads, timed as attention. Shapes as in kernels/attention.hpp: qkv and dqkv (tokens,
/// qkv_width), o and dout (tokens, q_width), lse (batch, heads, seq) fp32. For llama queries and keys in qkv are
/// rotated, and so are their gradients in dqkv. If queries and keys have norms, they are normalised before.
struct DotProductAttention {
  kernels::AttentionShape shape;

  /// Writes o, and lse for backward.
  void forward(const Context& context, const tensor::Tensor& o, const tensor::Tensor& lse,
               const tensor::Tensor& qkv) const;
  /// Writes dqkv.
  void backward(const Context& context, const tensor::Tensor& dqkv, const tensor::Tensor& dout, const tensor::Tensor& o,
                const tensor::Tensor& qkv, const tensor::Tensor& lse) const;
};

/// The attention block of a layer: y (T_local, H) = x + attention(norm(x)). The block computes the norm and QKV,
/// normalises queries and keys (if their norms have weights), rotates them (llama), and computes attention and the
/// projection. Collective over the tensor group.
struct MultiheadAttention {
  LayernormLinear qkv;
  DotProductAttention attention;
  RowExchanges proj_exchanges = Overlap().proj();

  struct Weights {
    LayernormLinear::Weights qkv;
    kernels::QkWeights qk_norm{};  ///< (head_dim) each; empty: queries and keys are not normalised
    LinearWeights proj{};
  };
  struct Gradients {
    LayernormLinear::Gradients qkv;
    kernels::QkWeights qk_norm{};  ///< (head_dim) fp32 each, of this rank's heads: added to
    AffineGradient proj{};
  };
  /// What forward writes for backward, in memory that the caller provides.
  struct Saved {
    LayernormLinear::Saved qkv;
    tensor::Tensor unnormed;  ///< (tokens, qk_width), queries and keys before their norm; empty without the norm
    tensor::Tensor rotated;   ///< (tokens, qkv_width), queries and keys after the rotation
    tensor::Tensor lse;       ///< (batch, heads, seq) fp32
    LinearInput proj;         ///< (tokens, q_width): the result of attention, whose cast backward may recompute
  };
  struct Scratch {
    LinearScratch qkv, proj;    ///< may have the same memory, unless proj's wgrad is deferred
    tensor::Tensor dnormed;     ///< (T_local, H)
    tensor::Tensor dheads;      ///< (tokens, q_width)
    tensor::Tensor dqkv;        ///< (tokens, qkv_width)
    tensor::Tensor rope_table;  ///< (2, seq, head_dim/2) fp32, filled; empty: no rotation
  };

  /// Returns y, written or as partial sums, as row_linear_forward says. Writes `saved`, and the sum of x if x is still
  /// partial sums.
  [[nodiscard]] HeldSum forward(const Context& context, const tensor::Tensor& y, const Saved& saved, HeldSum x,
                                const Weights& w, const Scratch& scratch) const;
  /// Begins the backward of proj with dx (T_local, H), the gradient of y.
  RowBackward begin_backward(const Context& context, const tensor::Tensor& dx, const Saved& saved,
                             const Scratch& scratch) const;
  /// Goes on with `proj`. dx (T_local, H): on entry the gradient of y, on exit the gradient of x, the residual path
  /// included. Returns the wgrad of proj if it is deferred.
  [[nodiscard]] std::optional<RowWgrad> backward(const Context& context, RowBackward&& proj, const tensor::Tensor& dx,
                                                 const Gradients& dw, const tensor::Tensor& x, const Saved& saved,
                                                 const Weights& w, const Scratch& scratch) const;

 private:
  kernels::QkHeads qk_heads() const { return {attention.shape.heads, attention.shape.kv_heads}; }
  /// Normalises queries and keys of saved.rotated, if w.qk_norm is not empty, and rotates them.
  void normalise_and_rotate(const Context& context, const Saved& saved, const Weights& w, const Scratch& scratch) const;
  /// The backward of normalise_and_rotate, on scratch.dqkv.
  void rotate_and_normalise_back(const Context& context, const Gradients& dw, const Saved& saved, const Weights& w,
                                 const Scratch& scratch) const;
};

}  // namespace shard8::model
