// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/products.hpp"

#include "kernels/gemm.hpp"

namespace shard8::model {

using operation::format_of;
using operation::Product;
using tensor::Operand;
using tensor::Tensor;

void fprop(const Context& context, const Tensor& y, const Operand& x, const Weight& weight, const Tensor& bias,
           const Tensor& residual) {
  const Operand& w = weight.copy_for(fsdp::Pass::forward);
  context.issue(
      Product{Product::Kind::fprop, y.rows(), y.cols(), x.cols(), format_of(x), format_of(w), y.dtype, false,
              !bias.empty(), !residual.empty()},
      [&](const tensor::Exec& exec) { kernels::gemm_fprop(exec, y, x, w, bias, context.workspace, residual); });
}

void dgrad(const Context& context, const Tensor& dx, const Operand& dy, const Weight& weight) {
  const Operand& w = weight.copy_for(fsdp::Pass::backward);
  context.issue(
      Product{Product::Kind::dgrad, dx.rows(), dx.cols(), dy.cols(), format_of(dy), format_of(w), dx.dtype, false},
      [&](const tensor::Exec& exec) { kernels::gemm_dgrad(exec, dx, dy, w, false, context.workspace); });
}

void wgrad(const Context& context, const Tensor& dw, const Operand& dy, const Operand& x, bool accumulate) {
  context.issue(
      Product{Product::Kind::wgrad, dw.rows(), dw.cols(), dy.rows(), format_of(dy), format_of(x), dw.dtype, accumulate},
      [&](const tensor::Exec& exec) { kernels::gemm_wgrad(exec, dw, dy, x, accumulate, context.workspace); });
}

void grouped_fprop(const Context& context, const Tensor& y, const Operand& x, const Weight& weight,
                   const kernels::RowGroups& groups, std::int64_t tokens) {
  const Operand& w = weight.copy_for(fsdp::Pass::forward);
  Product product{Product::Kind::fprop, tokens, y.cols(), x.cols(), format_of(x), format_of(w), y.dtype};
  product.groups = groups.rows.count();
  const profile::StepTimer::OfExperts timed(context.timer());
  context.issue(product, [&](const tensor::Exec& exec) {
    kernels::grouped_gemm_fprop(exec, y, x, w, groups, context.workspace);
  });
}

void grouped_dgrad(const Context& context, const Tensor& dx, const Operand& dy, const Weight& weight,
                   const kernels::RowGroups& groups, std::int64_t tokens) {
  const Operand& w = weight.copy_for(fsdp::Pass::backward);
  Product product{Product::Kind::dgrad, tokens, dx.cols(), dy.cols(), format_of(dy), format_of(w), dx.dtype};
  product.groups = groups.rows.count();
  const profile::StepTimer::OfExperts timed(context.timer());
  context.issue(product, [&](const tensor::Exec& exec) {
    kernels::grouped_gemm_dgrad(exec, dx, dy, w, groups, context.workspace);
  });
}

void grouped_wgrad(const Context& context, const Tensor& dw, const Operand& dy, const Operand& x,
                   const kernels::RowGroups& groups, std::int64_t tokens, bool accumulate) {
  Product product{Product::Kind::wgrad, dy.cols(),    dw.cols(), tokens,
                  format_of(dy),        format_of(x), dw.dtype,  accumulate};
  product.groups = groups.rows.count();
  const profile::StepTimer::OfExperts timed(context.timer());
  context.issue(product, [&](const tensor::Exec& exec) {
    kernels::grouped_gemm_wgrad(exec, dw, dy, x, groups, accumulate, context.workspace);
  });
}

}  // namespace shard8::model
