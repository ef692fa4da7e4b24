// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/transformer_layer.hpp"

namespace shard8::model {

using tensor::Tensor;

TransformerLayer::TransformerLayer(const Dims& dims) {
  const Norm norm{dims.arch, dims.norm_eps};
  attention_.qkv.norm = norm;
  attention_.attention.shape = {dims.batch, dims.seq, dims.heads, dims.kv_heads, dims.head_dim, dims.deterministic};
  mlp_.fc1.norm = norm;
  attention_.qkv.overlap = dims.overlap.qkv;
  mlp_.fc1.overlap = dims.overlap.fc1;
}

void TransformerLayer::forward(const Context& context, const Tensor& y, const Saved& saved, const Tensor& x,
                               const Weights& w, const Scratch& scratch) const {
  attention_.forward(context, saved.middle, saved.attention, x, w.attention, scratch.attention);
  mlp_.forward(context, y, saved.mlp, saved.middle, w.mlp, scratch.mlp);
}

void TransformerLayer::recompute(const Context& context, const Saved& saved, const Tensor& x, const Weights& w,
                                 const Scratch& scratch) const {
  attention_.forward(context, saved.middle, saved.attention, x, w.attention, scratch.attention);
  mlp_.forward_saved(context, saved.mlp, saved.middle, w.mlp, scratch.mlp);
}

void TransformerLayer::backward(const Context& context, const Tensor& dx, const Gradients& dw, const Tensor& x,
                                const Saved& saved, const Weights& w, const Scratch& scratch) const {
  mlp_.backward(context, dx, dw.mlp, saved.middle, saved.mlp, w.mlp, scratch.mlp);
  attention_.backward(context, dx, dw.attention, x, saved.attention, w.attention, scratch.attention);
}

}  // namespace shard8::model
