// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/check/arguments.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/kokkos/label.hpp"
#include "kernels/kokkos/portable.hpp"
#include "tensor/cuda/device.hpp"

namespace shard8::kernels {
namespace {

using tensor::BFloat16;
using tensor::SumOfPartials;
using tensor::Tensor;

/// Whether y requests nothing but a cast to e4m3 with 1×128 blocks.
bool only_row_blocks(const Outputs& y) {
  return !y.blocks.rowwise.empty() && y.blocks.columnwise.empty() && y.blocks.rowwise.data.dtype == tensor::DType::e4m3;
}

/// The arguments of cuda::norm_forward for x (T, H) in bf16 and the outputs y. RMSNorm has neither mean nor bias: both
/// are null. Casts with block scales are left out unless only_row_blocks(). If y requests the plain result and a
/// transposed cast, the transposed cast is left out: that kernel cannot write both.
cuda::NormForward describe(const char* kernel, const Outputs& y, const Tensor* mean, const Tensor& rstd,
                           const SumOfPartials& x, const Tensor& weight, const Tensor* bias, float eps) {
  cuda::NormForward norm{};
  norm.x = x.sum.as<BFloat16>();
  norm.partial_sum_count = x.made() ? 0 : x.partial_sums.count();
  for (int k = 0; k < norm.partial_sum_count; ++k) norm.partial_sums[k] = x.partial_sums[k].as<BFloat16>();
  norm.weight = weight.as<BFloat16>();
  norm.bias = bias == nullptr ? nullptr : bias->as<BFloat16>();
  norm.mean = mean == nullptr ? nullptr : mean->as<float>();
  norm.rstd = rstd.as<float>();
  norm.rows = x.sum.rows();
  norm.hidden = x.sum.cols();
  norm.eps = eps;
  norm.plain = y.plain.empty() ? nullptr : y.plain.as<BFloat16>();
  if (has_cast(y)) {
    norm.format = y.quantized.data.dtype;
    dispatch_float8(norm.format, kernel, [&]<class Q>(std::type_identity<Q>) {
      norm.quantized = y.quantized.data.as<Q>();
      Q* const transposed = y.transposed.empty() ? nullptr : y.transposed.as<Q>();
      if (norm.plain == nullptr) norm.transposed = transposed;
    });
    norm.scale = y.scale.as<float>();
    norm.scale_inv = y.quantized.scale_inv.as<float>();
  }
  if (only_row_blocks(y)) {
    norm.plain = nullptr;
    norm.format = tensor::DType::e4m3;
    norm.quantized = y.blocks.rowwise.data.as<tensor::E4M3>();
    norm.scale_inv = y.blocks.rowwise.scale_inv.as<float>();
    norm.power_of_2 = y.blocks.power_of_2;
  }
  norm.amax = y.amax.empty() ? nullptr : y.amax.as<std::int32_t>();
  if (y.counts != nullptr && (norm.quantized != nullptr || norm.amax != nullptr)) {
    norm.saturated = reinterpret_cast<unsigned long long*>(&y.counts->saturated);
    norm.flushed = reinterpret_cast<unsigned long long*>(&y.counts->flushed);
  }
  return norm;
}

/// Runs the CUDA kernel if it takes the arguments, which must have been checked. Returns whether it ran.
bool forward_by_clusters(const tensor::Exec& exec, const char* kernel, const char* label, const Outputs& y,
                         const Tensor* mean, const Tensor& rstd, const SumOfPartials& x, const Tensor& weight,
                         const Tensor* bias, float eps) {
  if (x.sum.dtype != tensor::DType::bf16 || x.sum.count() == 0 || asks_for_nothing(y)) return false;
  const cuda::NormForward norm = describe(kernel, y, mean, rstd, x, weight, bias, eps);
  if (!cuda::has_norm_forward(norm)) return false;
  {
    const ReportedKernel reported(exec, label);
    cuda::norm_forward(tensor::cuda::stream_of(exec), norm);
  }
  if (has_cast(y) && !y.transposed.empty() && norm.transposed == nullptr) {
    transpose_cast(exec, kernel, y.transposed, y.quantized.data);
  }
  if (!y.blocks.empty() && norm.quantized == nullptr) cast_in_blocks(exec, y.blocks, y.plain, y.counts);
  return true;
}

}  // namespace

void rmsnorm_forward(const tensor::Exec& exec, const Outputs& y, const Tensor& rstd, const SumOfPartials& x,
                     const Tensor& weight, float eps) {
  constexpr auto kName = "rmsnorm_forward";
  require_rmsnorm(kName, y, rstd, x.sum, weight);
  constexpr auto kLabel = "shard8::kernels::rmsnorm_forward";
  if (forward_by_clusters(exec, kName, kLabel, y, nullptr, rstd, x, weight, nullptr, eps)) return;
  portable_rmsnorm_forward(exec, y, rstd, x, weight, eps);
}

void layernorm_forward(const tensor::Exec& exec, const Outputs& y, const Tensor& mean, const Tensor& rstd,
                       const SumOfPartials& x, const Tensor& weight, const Tensor& bias, float eps) {
  constexpr auto kName = "layernorm_forward";
  require_layernorm(kName, y, mean, rstd, x.sum, weight, bias);
  constexpr auto kLabel = "shard8::kernels::layernorm_forward";
  make_sum(exec, x);
  if (forward_by_clusters(exec, kName, kLabel, y, &mean, rstd, x.sum, weight, &bias, eps)) return;
  portable_layernorm_forward(exec, y, mean, rstd, x.sum, weight, bias, eps);
}

}  // namespace shard8::kernels
