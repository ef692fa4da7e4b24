// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/norm.hpp"

#include "kernels/norm.hpp"

namespace shard8::model {

using operation::Kernel;
using tensor::DType;
using tensor::Tensor;

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

}  // namespace shard8::model
