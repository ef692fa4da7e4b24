// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention.hpp"
#include "model/context.hpp"

namespace shard8::model {

/// Causal attention of this rank's heads, timed as attention; shapes as in kernels/attention.hpp.
struct DotProductAttention {
  kernels::AttentionShape shape;

  void forward(const Context& context, const tensor::Tensor& o, const tensor::Tensor& lse,
               const tensor::Tensor& qkv) const;
  void backward(const Context& context, const tensor::Tensor& dqkv, const tensor::Tensor& dout, const tensor::Tensor& o,
                const tensor::Tensor& qkv, const tensor::Tensor& lse) const;
};

}  // namespace shard8::model
