// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention.hpp"
#include "model/context.hpp"

namespace shard8::model {

/// Causal attention of this rank's heads, timed as attention. Shapes as in kernels/attention.hpp: qkv and dqkv
/// (tokens, qkv_width), o and dout (tokens, q_width), lse (batch, heads, seq) fp32. For llama queries and keys in qkv
/// are rotated, and so are their gradients in dqkv.
struct DotProductAttention {
  kernels::AttentionShape shape;

  /// Writes o, and lse for backward.
  void forward(const Context& context, const tensor::Tensor& o, const tensor::Tensor& lse,
               const tensor::Tensor& qkv) const;
  /// Writes dqkv.
  void backward(const Context& context, const tensor::Tensor& dqkv, const tensor::Tensor& dout, const tensor::Tensor& o,
                const tensor::Tensor& qkv, const tensor::Tensor& lse) const;
};

}  // namespace shard8::model
