// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/dot_product_attention.hpp"
#include "model/layernorm_linear.hpp"

namespace shard8::model {

/// The attention block of a layer: y (T_local, H) = x + attention(norm(x)). It computes the norm and QKV, rotates
/// queries and keys (llama), and computes attention and the projection. Collective over the tensor group.
struct MultiheadAttention {
  LayernormLinear qkv;
  DotProductAttention attention;
  RowExchanges proj_exchanges = Overlap().proj();

  struct Weights {
    LayernormLinear::Weights qkv;
    LinearWeights proj;
  };
  struct Gradients {
    LayernormLinear::Gradients qkv;
    AffineGradient proj;
  };
  /// What forward writes for backward, in memory that the caller provides.
  struct Saved {
    LayernormLinear::Saved qkv;
    tensor::Tensor rotated;    ///< (tokens, qkv_width), queries and keys after the rotation
    tensor::Tensor lse;        ///< (batch, heads, seq) fp32
    tensor::Tensor heads;      ///< (tokens, q_width), the result of attention
    fp8::Operands proj_input;  ///< `heads`, or its cast; backward recomputes the cast from `heads` if qkv.recompute
    fp8::Site proj_site;
  };
  struct Scratch {
    LinearScratch linear;
    LinearScratch proj;         ///< for proj: `linear`, but memory of its own for what a deferred wgrad reads
    tensor::Tensor dnormed;     ///< (T_local, H)
    tensor::Tensor dheads;      ///< (tokens, q_width)
    tensor::Tensor dqkv;        ///< (tokens, qkv_width)
    tensor::Tensor rope_table;  ///< (2, seq, head_dim/2) fp32, filled; empty: no rotation
  };

  /// Returns y, written or pending as row_linear_forward says, and writes `saved`. Writes the sum of a pending x.
  tensor::PendingSum forward(const Context& context, const tensor::Tensor& y, const Saved& saved,
                             const tensor::PendingSum& x, const Weights& w, const Scratch& scratch) const;
  /// Begins the backward of proj with dx (T_local, H), the gradient of y.
  RowBackward begin_backward(const Context& context, const tensor::Tensor& dx, const Saved& saved,
                             const Scratch& scratch) const;
  /// dx (T_local, H): on entry the gradient of y, on exit the gradient of x, the residual path included.
  /// `deferred`: the caller calls proj.wgrad() later.
  void backward(const Context& context, RowBackward& proj, bool deferred, const tensor::Tensor& dx, const Gradients& dw,
                const tensor::Tensor& x, const Saved& saved, const Weights& w, const Scratch& scratch) const;
};

}  // namespace shard8::model
