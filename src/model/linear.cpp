// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/linear.hpp"

#include "kernels/elementwise.hpp"
#include "kernels/gemm.hpp"
#include "model/sequence_parallel.hpp"

namespace shard8::model {

using profile::Part;
using tensor::Tensor;

namespace {

void fprop(const Context& context, const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias) {
  auto part = context.timer.part(Part::gemm);
  kernels::gemm_fprop(context.exec, y, x, w, bias, context.workspace);
  context.progress();
}

void dgrad(const Context& context, const Tensor& dx, const Tensor& dy, const Tensor& w) {
  auto part = context.timer.part(Part::gemm);
  kernels::gemm_dgrad(context.exec, dx, dy, w, false, context.workspace);
  context.progress();
}

void wgrad(const Context& context, const AffineGradient& dw, const Tensor& dy, const Tensor& x) {
  auto part = context.timer.part(Part::gemm);
  kernels::gemm_wgrad(context.exec, dw.sum.weight, dy, x, dw.accumulate, context.workspace);
  context.progress();
}

void bias_gradient(const Context& context, const AffineGradient& dw, const Tensor& dy) {
  if (dw.sum.bias.empty()) return;
  auto part = context.timer.part(Part::elementwise);
  kernels::bias_gradient(context.exec, dw.sum.bias, dy, context.workspace);
}

}  // namespace

void column_linear_forward(const Context& context, const Tensor& y, const Tensor& x, const Affine& w,
                           const LinearScratch& scratch) {
  fprop(context, y, gather_tokens(context, scratch.gathered, x), w.weight, w.bias);
}

void column_linear_backward(const Context& context, const Tensor& dx, const AffineGradient& dw, const Tensor& dy,
                            const Tensor& x, const Affine& w, const LinearScratch& scratch) {
  bias_gradient(context, dw, dy);
  wgrad(context, dw, dy, gather_tokens(context, scratch.gathered, x));
  const Tensor partial = partial_of(context, scratch.partial, dx);
  dgrad(context, partial, dy, w.weight);
  reduce_scatter_tokens(context, dx, partial);
}

void row_linear_forward(const Context& context, const Tensor& y, const Tensor& x, const Affine& w,
                        const Tensor& residual, const LinearScratch& scratch) {
  const Tensor sum = scratch.gathered.reshaped({y.rows(), y.cols()});
  const Tensor partial = partial_of(context, scratch.partial, sum);
  fprop(context, partial, x, w.weight, {});
  reduce_scatter_tokens(context, sum, partial);
  auto part = context.timer.part(Part::elementwise);
  kernels::residual_add(context.exec, y, residual, sum, w.bias);
}

void row_linear_backward(const Context& context, const Tensor& dx, const AffineGradient& dw, const Tensor& dy,
                         const Tensor& x, const Affine& w, const LinearScratch& scratch) {
  bias_gradient(context, dw, dy);
  const Tensor whole = gather_tokens(context, scratch.gathered, dy);
  dgrad(context, dx, whole, w.weight);
  wgrad(context, dw, whole, x);
}

}  // namespace shard8::model
