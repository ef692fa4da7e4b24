// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/products.hpp"

#include "kernels/gemm.hpp"
#include "model/operations.hpp"

namespace shard8::model {

using operation::Product;
using tensor::Operand;
using tensor::Tensor;

namespace {

Format format_of(const Operand& matrix) { return {matrix.data.dtype, matrix.scaling, matrix.transposed}; }

void tell(const Context& context, const Product& product) {
  if (profile::TraceNote* const note = context.timer.note()) {
    note->m = product.rows;
    note->n = product.cols;
    note->k = product.inner;
    note->left = name_of(product.left.dtype);
    note->right = name_of(product.right.dtype);
    note->out = name_of(product.out);
    note->flops = product.flops();
  }
  if (context.observer != nullptr && context.observer->product) context.observer->product(product);
}

}  // namespace

void fprop(const Context& context, const Tensor& y, const Operand& x, const Operand& w, const Tensor& bias,
           const Tensor& residual) {
  auto part = context.timer.part(profile::Part::gemm, "fprop");
  tell(context, {Product::Kind::fprop, y.rows(), y.cols(), x.cols(), format_of(x), format_of(w), y.dtype, false,
                 !bias.empty(), !residual.empty()});
  kernels::gemm_fprop(context.exec, y, x, w, bias, context.workspace, residual);
  context.progress();
}

void dgrad(const Context& context, const Tensor& dx, const Operand& dy, const Operand& w) {
  auto part = context.timer.part(profile::Part::gemm, "dgrad");
  tell(context, {Product::Kind::dgrad, dx.rows(), dx.cols(), dy.cols(), format_of(dy), format_of(w), dx.dtype, false});
  kernels::gemm_dgrad(context.exec, dx, dy, w, false, context.workspace);
  context.progress();
}

void wgrad(const Context& context, const Tensor& dw, const Operand& dy, const Operand& x, bool accumulate) {
  auto part = context.timer.part(profile::Part::gemm, "wgrad");
  tell(context,
       {Product::Kind::wgrad, dw.rows(), dw.cols(), dy.rows(), format_of(dy), format_of(x), dw.dtype, accumulate});
  kernels::gemm_wgrad(context.exec, dw, dy, x, accumulate, context.workspace);
  context.progress();
}

}  // namespace shard8::model
