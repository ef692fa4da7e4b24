// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/transformer_layer.hpp"

#include "kernels/attention.hpp"

namespace shard8::model {

using fp8::Quantizer;
using fsdp::Pass;
using operation::Attention;
using operation::Kernel;
using operation::Linear;
using tensor::Tensor;

namespace {

/// Rotates queries and keys in place, by `rotate` of kernels/attention.hpp.
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

void MultiheadAttention::normalise_and_rotate(const Context& context, const Saved& saved, const Weights& w,
                                              const Scratch& scratch) const {
  const Tensor &rotated = saved.rotated, &table = scratch.rope_table;
  if (w.qk_norm.q.empty()) return rope(context, "rope_forward", rotated, table, attention.shape, kernels::rope_forward);
  // Each head of each token is a row of the norm.
  const Tensor heads = saved.unnormed.reshaped({rotated.rows() * qk_heads().all(), attention.shape.head_dim});
  const Kernel kernel{"qk_norm_rope_forward", heads.rows(), heads.cols(), rotated.dtype, rotated.dtype};
  context.issue(kernel.reads(heads, table, w.qk_norm.q, w.qk_norm.k).writes(heads, saved.unnormed),
                [&](const tensor::Exec& exec) {
                  kernels::qk_norm_rope_forward(exec, rotated, saved.unnormed, table, w.qk_norm, qk_heads(),
                                                qkv.norm.eps);
                });
}

void MultiheadAttention::rotate_and_normalise_back(const Context& context, const Gradients& dw, const Saved& saved,
                                                   const Weights& w, const Scratch& scratch) const {
  const Tensor &dqkv = scratch.dqkv, &table = scratch.rope_table;
  if (w.qk_norm.q.empty()) return rope(context, "rope_backward", dqkv, table, attention.shape, kernels::rope_backward);
  const Tensor heads = saved.unnormed.reshaped({dqkv.rows() * qk_heads().all(), attention.shape.head_dim});
  const Kernel kernel{"qk_norm_rope_backward", heads.rows(), heads.cols(), dqkv.dtype, dqkv.dtype};
  const auto& [dq, dk] = dw.qk_norm;
  context.issue(kernel.reads(heads, saved.unnormed, table, w.qk_norm.q, w.qk_norm.k, dq, dk).writes(heads, dq, dk),
                [&](const tensor::Exec& exec) {
                  kernels::qk_norm_rope_backward(exec, dqkv, dw.qk_norm, saved.unnormed, table, w.qk_norm, qk_heads(),
                                                 qkv.norm.eps, context.workspace.memory);
                });
}

HeldSum MultiheadAttention::forward(const Context& context, const Tensor& y, const Saved& saved, HeldSum x,
                                    const Weights& w, const Scratch& scratch) const {
  const Tensor residual = x.sum.sum;
  {
    const At at(context.executor, Linear::qkv);
    qkv.forward(context, saved.rotated, saved.qkv, std::move(x), w.qkv, scratch.qkv);
  }
  normalise_and_rotate(context, saved, w, scratch);
  const LinearInput& heads = saved.proj;
  const Lease input = heads.hold(context, "the input of proj", Pass::forward);
  attention.forward(context, heads.plain, saved.lse, saved.rotated);
  const At at(context.executor, Linear::proj);
  if (heads.site.on())
    context.quantizer->cast(heads.site, heads.copies, heads.plain, Quantizer::Tokens::all, heads.purpose());
  return row_linear_forward(context, y, heads.copies, w.proj, residual, scratch.proj, proj_exchanges.forward);
}

RowBackward MultiheadAttention::begin_backward(const Context& context, const Tensor& dx, const Saved& saved,
                                               const Scratch& scratch) const {
  const At at(context.executor, Linear::proj);
  const LinearInput& heads = saved.proj;
  if (heads.recomputed) {
    const operation::Recomputing again(context.executor);
    context.quantizer->cast(heads.site, heads.copies, heads.plain, Quantizer::Tokens::all,
                            Quantizer::Purpose::recomputed);
  }
  return {context, heads, dx, scratch.proj, proj_exchanges.gather};
}

std::optional<RowWgrad> MultiheadAttention::backward(const Context& context, RowBackward&& proj, const Tensor& dx,
                                                     const Gradients& dw, const Tensor& x, const Saved& saved,
                                                     const Weights& w, const Scratch& scratch) const {
  const Lease dqkv = context.lease("the gradient of qkv's output", {scratch.dqkv});
  std::optional<RowWgrad> wgrad;
  {
    const Lease dheads = context.lease("the gradient of attention's output", {scratch.dheads});
    {
      const At at(context.executor, Linear::proj);
      wgrad = std::move(proj).dgrad(context, scratch.dheads, dw.proj, w.proj);
      if (!proj_exchanges.wgrad_deferred) {
        std::move(*wgrad).wgrad(context, dw.proj);
        wgrad.reset();
      }
    }
    attention.backward(context, scratch.dqkv, scratch.dheads, saved.proj.plain, saved.rotated, saved.lse);
  }
  rotate_and_normalise_back(context, dw, saved, w, scratch);
  const At at(context.executor, Linear::qkv);
  qkv.backward(context, dx, dw.qkv, output_gradient(context, saved.qkv.input.site, scratch.dqkv, scratch.qkv), x,
               saved.qkv, w.qkv, scratch.dnormed, scratch.qkv);
  return wgrad;
}

}  // namespace shard8::model
