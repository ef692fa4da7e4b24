// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/norm.hpp"

#include "kernels/elementwise.hpp"
#include "kernels/kokkos/portable.hpp"

namespace shard8::kernels {

void rmsnorm_forward(const tensor::Exec& exec, const Outputs& y, const tensor::Tensor& rstd,
                     const tensor::SumOfPartials& x, const tensor::Tensor& weight, float eps) {
  make_sum(exec, x);
  portable_rmsnorm_forward(exec, y, rstd, x.sum, weight, eps);
}

void layernorm_forward(const tensor::Exec& exec, const Outputs& y, const tensor::Tensor& mean,
                       const tensor::Tensor& rstd, const tensor::SumOfPartials& x, const tensor::Tensor& weight,
                       const tensor::Tensor& bias, float eps) {
  make_sum(exec, x);
  portable_layernorm_forward(exec, y, mean, rstd, x.sum, weight, bias, eps);
}

}  // namespace shard8::kernels
