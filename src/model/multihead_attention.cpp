// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/multihead_attention.hpp"

#include "kernels/rope.hpp"

namespace shard8::model {

using fp8::Quantizer;
using profile::Part;
using tensor::Tensor;

tensor::PendingSum MultiheadAttention::forward(const Context& context, const Tensor& y, const Saved& saved,
                                               const tensor::PendingSum& x, const Weights& w,
                                               const Scratch& scratch) const {
  qkv.forward(context, saved.rotated, saved.qkv, x, w.qkv, scratch.linear);
  if (!scratch.rope_table.empty()) {
    auto part = context.timer.part(Part::elementwise, "rope_forward");
    kernels::rope_forward(context.exec, saved.rotated, scratch.rope_table,
                          attention.shape.heads + attention.shape.kv_heads);
  }
  attention.forward(context, saved.heads, saved.lse, saved.rotated);
  if (saved.proj_site.on())
    context.quantizer->cast(saved.proj_site, saved.proj_input, saved.heads, Quantizer::Tokens::all,
                            saved.qkv.recompute ? Quantizer::Purpose::forward_pass : Quantizer::Purpose::both_passes);
  return row_linear_forward(context, y, saved.proj_input, w.proj, x.sum, scratch.proj, proj_exchanges.forward);
}

RowBackward MultiheadAttention::begin_backward(const Context& context, const Tensor& dx, const Saved& saved,
                                               const Scratch& scratch) const {
  if (saved.qkv.recompute && saved.proj_site.on())
    context.quantizer->cast(saved.proj_site, saved.proj_input, saved.heads, Quantizer::Tokens::all,
                            Quantizer::Purpose::recomputed);
  return {context, output_gradient(context, saved.proj_site, dx, Quantizer::Tokens::part, scratch.proj), scratch.proj,
          proj_exchanges.gather};
}

void MultiheadAttention::backward(const Context& context, RowBackward& proj, bool deferred, const Tensor& dx,
                                  const Gradients& dw, const Tensor& x, const Saved& saved, const Weights& w,
                                  const Scratch& scratch) const {
  proj.dgrad(context, scratch.dheads, dw.proj, w.proj);
  if (!deferred) proj.wgrad(context, dw.proj, saved.proj_input);
  attention.backward(context, scratch.dqkv, scratch.dheads, saved.heads, saved.rotated, saved.lse);
  if (!scratch.rope_table.empty()) {
    auto part = context.timer.part(Part::elementwise, "rope_backward");
    kernels::rope_backward(context.exec, scratch.dqkv, scratch.rope_table,
                           attention.shape.heads + attention.shape.kv_heads);
  }
  qkv.backward(context, dx, dw.qkv,
               output_gradient(context, saved.qkv.site, scratch.dqkv, Quantizer::Tokens::all, scratch.linear), x,
               saved.qkv, w.qkv, scratch.dnormed, scratch.linear);
}

}  // namespace shard8::model
