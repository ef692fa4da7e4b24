// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/dot_product_attention.hpp"

#include "model/operations.hpp"

namespace shard8::model {

using tensor::Tensor;

namespace {

void tell(const Context& context, const operation::Attention& attention) {
  if (context.observer != nullptr && context.observer->attention) context.observer->attention(attention);
}

}  // namespace

void DotProductAttention::forward(const Context& context, const Tensor& o, const Tensor& lse, const Tensor& qkv) const {
  auto part = context.timer.part(profile::Part::attention, "attention_forward");
  tell(context, {false, shape, qkv.dtype});
  kernels::attention_forward(context.exec, o, lse, qkv, shape, context.workspace);
  context.progress();
}

void DotProductAttention::backward(const Context& context, const Tensor& dqkv, const Tensor& dout, const Tensor& o,
                                   const Tensor& qkv, const Tensor& lse) const {
  auto part = context.timer.part(profile::Part::attention, "attention_backward");
  tell(context, {true, shape, qkv.dtype});
  kernels::attention_backward(context.exec, dqkv, dout, o, qkv, lse, shape, context.workspace);
  context.progress();
}

}  // namespace shard8::model
