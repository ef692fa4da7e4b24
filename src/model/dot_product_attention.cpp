// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/dot_product_attention.hpp"

namespace shard8::model {

using operation::Attention;
using tensor::Tensor;

void DotProductAttention::forward(const Context& context, const Tensor& o, const Tensor& lse, const Tensor& qkv) const {
  context.issue(Attention{false, shape, qkv.dtype}, [&](const tensor::Exec& exec) {
    kernels::attention_forward(exec, o, lse, qkv, shape, context.workspace);
  });
}

void DotProductAttention::backward(const Context& context, const Tensor& dqkv, const Tensor& dout, const Tensor& o,
                                   const Tensor& qkv, const Tensor& lse) const {
  context.issue(Attention{true, shape, qkv.dtype}, [&](const tensor::Exec& exec) {
    kernels::attention_backward(exec, dqkv, dout, o, qkv, lse, shape, context.workspace);
  });
}

}  // namespace shard8::model
