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

namespace {

/// The weights (G·N, K) of the part's groups. Each group has an inverse scale if a matrix has one.
Operand weights_of(const GroupPart& part, const Operand& w) {
  if (part.count() == part.all) return w;
  const std::int64_t rows = w.rows() / part.all;
  Operand own = w.slice(part.first * rows, part.count() * rows);
  if (w.scaling == tensor::Scaling::tensor) own.scale_inv = w.scale_inv.slice(part.first, part.count());
  return own;
}

/// Issues the product of a part: multiply(execution space, workspace).
template <class Multiply>
void issue_grouped(const Context& context, Product product, const GroupPart& part, const Multiply& multiply) {
  product.groups = part.count();
  const profile::StepTimer::OfExperts timed(context.timer());
  kernels::Workspace workspace = context.workspace;
  workspace.spared = part.spared;
  context.issue(product, [&](const tensor::Exec& exec) { multiply(exec, workspace); });
}

}  // namespace

void grouped_fprop(const Context& context, const Tensor& y, const Operand& x, const Weight& weight,
                   const GroupPart& part) {
  const Operand w = weights_of(part, weight.copy_for(fsdp::Pass::forward));
  const Product product{Product::Kind::fprop, part.tokens, y.cols(), x.cols(), format_of(x), format_of(w), y.dtype};
  issue_grouped(context, product, part, [&](const tensor::Exec& exec, const kernels::Workspace& workspace) {
    kernels::grouped_gemm_fprop(exec, y, x, w, part.groups, workspace);
  });
}

void grouped_dgrad(const Context& context, const Tensor& dx, const Operand& dy, const Weight& weight,
                   const GroupPart& part) {
  const Operand w = weights_of(part, weight.copy_for(fsdp::Pass::backward));
  const Product product{Product::Kind::dgrad, part.tokens, dx.cols(), dy.cols(), format_of(dy), format_of(w), dx.dtype};
  issue_grouped(context, product, part, [&](const tensor::Exec& exec, const kernels::Workspace& workspace) {
    kernels::grouped_gemm_dgrad(exec, dx, dy, w, part.groups, workspace);
  });
}

void grouped_wgrad(const Context& context, const Tensor& dw, const Operand& dy, const Operand& x, const GroupPart& part,
                   bool accumulate) {
  const std::int64_t rows = dw.rows() / part.all;
  const Tensor own = dw.slice(part.first * rows, part.count() * rows);
  const Product product{Product::Kind::wgrad, dy.cols(),    dw.cols(), part.tokens,
                        format_of(dy),        format_of(x), dw.dtype,  accumulate};
  issue_grouped(context, product, part, [&](const tensor::Exec& exec, const kernels::Workspace& workspace) {
    kernels::grouped_gemm_wgrad(exec, own, dy, x, part.groups, accumulate, workspace);
  });
}

}  // namespace shard8::model
