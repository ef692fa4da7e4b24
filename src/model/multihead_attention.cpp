// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/multihead_attention.hpp"

#include "kernels/rope.hpp"

namespace shard8::model {

using fp8::Quantizer;
using operation::Kernel;
using operation::Linear;
using tensor::Tensor;

namespace {

/// Rotates queries and keys in place, by `rotate` of kernels/rope.hpp.
template <class Rotate>
void rope(const Context& context, std::string_view name, const Tensor& qkv, const Tensor& table,
          const kernels::AttentionShape& shape, const Rotate& rotate) {
  if (table.empty()) return;
  const std::int64_t heads = shape.heads + shape.kv_heads;
  const Tensor rotated = qkv.reshaped({qkv.rows(), heads * shape.head_dim});  // as many elements
  context.issue(
      Kernel{name, rotated.rows(), rotated.cols(), qkv.dtype, qkv.dtype}.reads(rotated, table).writes(rotated),
      [&](const tensor::Exec& exec) { rotate(exec, qkv, table, heads); });
}

}  // namespace

tensor::PendingSum MultiheadAttention::forward(const Context& context, const Tensor& y, const Saved& saved,
                                               const tensor::PendingSum& x, const Weights& w,
                                               const Scratch& scratch) const {
  {
    const At at(context.executor, Linear::qkv);
    qkv.forward(context, saved.rotated, saved.qkv, x, w.qkv, scratch.linear);
  }
  rope(context, "rope_forward", saved.rotated, scratch.rope_table, attention.shape, kernels::rope_forward);
  attention.forward(context, saved.heads, saved.lse, saved.rotated);
  const At at(context.executor, Linear::proj);
  if (saved.proj_site.on())
    context.quantizer->cast(saved.proj_site, saved.proj_input, saved.heads, Quantizer::Tokens::all,
                            saved.qkv.recompute ? Quantizer::Purpose::forward_pass : Quantizer::Purpose::both_passes);
  return row_linear_forward(context, y, saved.proj_input, w.proj, x.sum, scratch.proj, proj_exchanges.forward);
}

RowBackward MultiheadAttention::begin_backward(const Context& context, const Tensor& dx, const Saved& saved,
                                               const Scratch& scratch) const {
  const At at(context.executor, Linear::proj);
  if (saved.qkv.recompute && saved.proj_site.on()) {
    const operation::Recomputing again(context.executor);
    context.quantizer->cast(saved.proj_site, saved.proj_input, saved.heads, Quantizer::Tokens::all,
                            Quantizer::Purpose::recomputed);
  }
  return {context, output_gradient(context, saved.proj_site, dx, Quantizer::Tokens::part, scratch.proj), scratch.proj,
          proj_exchanges.gather};
}

void MultiheadAttention::backward(const Context& context, RowBackward& proj, bool deferred, const Tensor& dx,
                                  const Gradients& dw, const Tensor& x, const Saved& saved, const Weights& w,
                                  const Scratch& scratch) const {
  {
    const At at(context.executor, Linear::proj);
    proj.dgrad(context, scratch.dheads, dw.proj, w.proj);
    if (!deferred) proj.wgrad(context, dw.proj, saved.proj_input);
  }
  attention.backward(context, scratch.dqkv, scratch.dheads, saved.heads, saved.rotated, saved.lse);
  rope(context, "rope_backward", scratch.dqkv, scratch.rope_table, attention.shape, kernels::rope_backward);
  const At at(context.executor, Linear::qkv);
  qkv.backward(context, dx, dw.qkv,
               output_gradient(context, saved.qkv.site, scratch.dqkv, Quantizer::Tokens::all, scratch.linear), x,
               saved.qkv, w.qkv, scratch.dnormed, scratch.linear);
}

}  // namespace shard8::model
