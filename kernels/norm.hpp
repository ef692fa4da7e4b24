// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "kernels/quantize.hpp"
#include "tensor/exec.hpp"
#include "tensor/tensor.hpp"

namespace shard8::kernels {

/// Normalisation over the last dimension. x, y, dy, dx (T, H) in the compute dtype, weight and bias
/// (H) in the compute dtype, statistics (T) and parameter gradients (H) in fp32; sums in fp32. Results of
/// forward can be quantized in the same pass (Outputs).

/// RMSNorm, Zhang & Sennrich 2019: rstd = 1/sqrt(mean(x²) + eps), y = weight · (x·rstd).
/// As Hugging Face's LlamaRMSNorm, x·rstd is rounded to the compute dtype before the weight.
void rmsnorm_forward(const tensor::Exec& exec, const Outputs& y, const tensor::Tensor& rstd, const tensor::Tensor& x,
                     const tensor::Tensor& weight, float eps);

/// Recomputes y from the rstd that forward wrote, with the same bits.
void rmsnorm_recompute(const tensor::Exec& exec, const Outputs& y, const tensor::Tensor& rstd, const tensor::Tensor& x,
                       const tensor::Tensor& weight);

/// dx = residual + d(rmsnorm)/dx · dy (residual (T, H) may be dx itself, or empty for none);
/// dweight (H) += Σ_t dy·x·rstd in a fixed order. `workspace`: u8, norm_workspace_bytes.
void rmsnorm_backward(const tensor::Exec& exec, const tensor::Tensor& dx, const tensor::Tensor& dweight,
                      const tensor::Tensor& dy, const tensor::Tensor& x, const tensor::Tensor& rstd,
                      const tensor::Tensor& weight, const tensor::Tensor& residual, const tensor::Tensor& workspace);

/// LayerNorm, Ba et al. 2016: y = weight · (x − mean)·rstd + bias, rstd = 1/sqrt(var + eps).
void layernorm_forward(const tensor::Exec& exec, const Outputs& y, const tensor::Tensor& mean,
                       const tensor::Tensor& rstd, const tensor::Tensor& x, const tensor::Tensor& weight,
                       const tensor::Tensor& bias, float eps);

/// Recomputes y from the mean and rstd that forward wrote, with the same bits.
void layernorm_recompute(const tensor::Exec& exec, const Outputs& y, const tensor::Tensor& mean,
                         const tensor::Tensor& rstd, const tensor::Tensor& x, const tensor::Tensor& weight,
                         const tensor::Tensor& bias);

/// As rmsnorm_backward; dbias (H) += Σ_t dy.
void layernorm_backward(const tensor::Exec& exec, const tensor::Tensor& dx, const tensor::Tensor& dweight,
                        const tensor::Tensor& dbias, const tensor::Tensor& dy, const tensor::Tensor& x,
                        const tensor::Tensor& mean, const tensor::Tensor& rstd, const tensor::Tensor& weight,
                        const tensor::Tensor& residual, const tensor::Tensor& workspace);

/// Bytes of workspace for backward of either norm (partial sums of parameter gradients), for any number of threads.
std::size_t norm_workspace_bytes(std::int64_t rows, std::int64_t hidden);

}  // namespace shard8::kernels
