// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/transformer_layer.hpp"

#include <utility>

namespace shard8::model {

using tensor::Tensor;

TransformerLayer::TransformerLayer(const Dims& dims) {
  const Norm norm{dims.arch, dims.norm_eps};
  attention_.qkv.norm = norm;
  attention_.attention.shape = {dims.batch, dims.seq, dims.heads, dims.kv_heads, dims.head_dim, dims.deterministic};
  mlp_.fc1.norm = norm;
  attention_.qkv.exchanges = dims.overlap.qkv();
  mlp_.fc1.exchanges = dims.overlap.fc1();
  attention_.proj_exchanges = dims.overlap.proj();
  mlp_.fc2_exchanges = dims.overlap.fc2();
}

tensor::PendingSum TransformerLayer::forward(const Context& context, const Tensor& y, const Saved& saved,
                                             const tensor::PendingSum& x, const Weights& w,
                                             const Scratch& scratch) const {
  const tensor::PendingSum middle =
      attention_.forward(context, saved.middle, saved.attention, x, w.attention, scratch.attention);
  return mlp_.forward(context, y, saved.mlp, middle, w.mlp, scratch.mlp);
}

void TransformerLayer::recompute(const Context& context, const Saved& saved, const Tensor& x, const Weights& w,
                                 const Scratch& scratch) const {
  const operation::Recomputing again(context.executor);
  const tensor::PendingSum middle =
      attention_.forward(context, saved.middle, saved.attention, x, w.attention, scratch.attention);
  mlp_.forward_saved(context, saved.mlp, middle, w.mlp, scratch.mlp);
}

RowBackward TransformerLayer::begin_backward(const Context& context, const Tensor& dx, const Saved& saved,
                                             const Scratch& scratch) const {
  return mlp_.begin_backward(context, dx, saved.mlp, scratch.mlp);
}

void TransformerLayer::backward(const Context& context, RowBackward begun, const Tensor& dx, const Gradients& dw,
                                const Tensor& x, const Saved& saved, const Weights& w, const Scratch& scratch,
                                const std::function<void()>& next) const {
  RowBackward fc2 = std::move(begun);
  mlp_.backward(context, fc2, dx, dw.mlp, saved.middle, saved.mlp, w.mlp, scratch.mlp);
  RowBackward proj = attention_.begin_backward(context, dx, saved.attention, scratch.attention);
  if (mlp_.fc2_exchanges.wgrad_deferred) {
    const At at(context.executor, operation::Linear::fc2);
    fc2.wgrad(context, dw.mlp.fc2, saved.mlp.fc2_input);
  }
  const bool deferred = attention_.proj_exchanges.wgrad_deferred;
  attention_.backward(context, proj, deferred, dx, dw.attention, x, saved.attention, w.attention, scratch.attention);
  next();
  if (!deferred) return;
  const At at(context.executor, operation::Linear::proj);
  proj.wgrad(context, dw.attention.proj, saved.attention.proj_input);
}

}  // namespace shard8::model
