// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "model/products.hpp"

#include <bit>

#include "base/error.hpp"
#include "kernels/elementwise.hpp"
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

using operation::Kernel;
using tensor::DType;

NormStatistics NormStatistics::allocate(deck::Arch arch, std::int64_t rows, tensor::Arena& arena) {
  NormStatistics s;
  s.rstd = arena.allocate({rows}, DType::fp32);
  if (arch == deck::Arch::gpt2) s.mean = arena.allocate({rows}, DType::fp32);
  return s;
}

void Norm::forward(const Context& context, const kernels::Outputs& y, const NormStatistics& statistics,
                   const tensor::SumOfPartials& x, const Affine& w) const {
  const bool llama = arch == deck::Arch::llama;
  Kernel kernel{llama ? "rmsnorm_forward" : "layernorm_forward", x.sum.rows(), x.sum.cols(), x.sum.dtype,
                operation::dtype_of(y)};
  kernel = kernel.reads(x.partial_sums, w.weight, w.bias).writes(y, statistics.mean, statistics.rstd);
  if (!x.made()) kernel = kernel.writes(x.sum);
  context.issue(kernel, [&](const tensor::Exec& exec) {
    if (llama)
      kernels::rmsnorm_forward(exec, y, statistics.rstd, x, w.weight, eps);
    else
      kernels::layernorm_forward(exec, y, statistics.mean, statistics.rstd, x, w.weight, w.bias, eps);
  });
}

void Norm::recompute(const Context& context, const kernels::Outputs& y, const NormStatistics& statistics,
                     const Tensor& x, const Affine& w) const {
  const bool llama = arch == deck::Arch::llama;
  const Kernel kernel{llama ? "rmsnorm_recompute" : "layernorm_recompute", x.rows(), x.cols(), x.dtype,
                      operation::dtype_of(y)};
  context.issue(kernel.reads(x, w.weight, w.bias, statistics.mean, statistics.rstd).writes(y),
                [&](const tensor::Exec& exec) {
                  if (llama)
                    kernels::rmsnorm_recompute(exec, y, statistics.rstd, x, w.weight);
                  else
                    kernels::layernorm_recompute(exec, y, statistics.mean, statistics.rstd, x, w.weight, w.bias);
                });
}

void Norm::backward(const Context& context, const Tensor& dx, const Affine& dw, const tensor::PartialSums& dy,
                    const Tensor& x, const NormStatistics& statistics, const Affine& w, const Tensor& residual) const {
  const bool llama = arch == deck::Arch::llama;
  const Kernel kernel{llama ? "rmsnorm_backward" : "layernorm_backward", x.rows(), x.cols(), x.dtype, dx.dtype};
  context.issue(kernel.reads(dy, x, statistics.mean, statistics.rstd, w.weight, residual, dw.weight, dw.bias)
                    .writes(dx, dw.weight, dw.bias),
                [&](const tensor::Exec& exec) {
                  if (llama)
                    kernels::rmsnorm_backward(exec, dx, dw.weight, dy, x, statistics.rstd, w.weight, residual,
                                              context.workspace.memory);
                  else
                    kernels::layernorm_backward(exec, dx, dw.weight, dw.bias, dy, x, statistics.mean, statistics.rstd,
                                                w.weight, residual, context.workspace.memory);
                });
}

void Lease::hold(Leases& leases, std::string_view what, const Bytes& bytes) {
  if (bytes.begin == bytes.end) return;
  SHARD8_REQUIRE(held_ == 0 || leases_ == &leases, "a lease of {} is of two sets of leases", what);
  for (std::uint32_t rest = leases.held_; rest != 0; rest &= rest - 1) {
    const auto i = static_cast<std::size_t>(std::countr_zero(rest));
    if (bytes.end <= leases.begin_[i] || leases.end_[i] <= bytes.begin) continue;
    const bool own = (held_ >> i & 1) != 0;
    if (own && leases.begin_[i] == bytes.begin) return;
    base::fail(base::ExitCode::failed, "{} would overwrite {}, which is still in use", what, leases.what_[i]);
  }
  const auto free = static_cast<std::size_t>(std::countr_one(leases.held_));
  SHARD8_REQUIRE(free < leases.begin_.size(), "there is no room for another lease, of {}", what);
  leases.begin_[free] = bytes.begin;
  leases.end_[free] = bytes.end;
  leases.what_[free] = what;
  leases_ = &leases;
  leases.held_ |= std::uint32_t{1} << free;
  held_ |= std::uint32_t{1} << free;
}

void Context::wait(profile::Exchange exchange, operation::Issued<comm::Request>& collective) const {
  if (!collective.under_way.active()) return executor.wait(collective);  // recorded, or left out
  auto part = timer().exchange(exchange, "wait");
  executor.wait(collective);
}

}  // namespace shard8::model
