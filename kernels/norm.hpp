// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "kernels/quantize.hpp"
#include "tensor/operand.hpp"
#include "tensor/runtime.hpp"
#include "tensor/tensor.hpp"

namespace shard8::kernels {

/// Normalisation over the last dimension. x, y, dy, dx and residual are (T, H), weight and bias (H); all have one
/// dtype, fp32 or bf16, the compute dtype. The statistics mean and rstd (T) and the gradients of parameters (H) are
/// fp32. Sums are fp32. The results of forward can be cast to FP8 in the same pass (Outputs). A tensor with another
/// dtype or count is an Error(failed).

/// RMSNorm (Zhang & Sennrich 2019): writes rstd = 1/sqrt(mean(x²) + eps) and y = weight · (x·rstd). x·rstd is rounded
/// to the compute dtype before it is multiplied by the weight, as in Hugging Face's LlamaRMSNorm. If x is partial sums,
/// the function also writes the sum, to x.sum.
void rmsnorm_forward(const tensor::Exec& exec, const Outputs& y, const tensor::Tensor& rstd,
                     const tensor::SumOfPartials& x, const tensor::Tensor& weight, float eps);

/// Recomputes y from the rstd that forward wrote, with the same bits.
void rmsnorm_recompute(const tensor::Exec& exec, const Outputs& y, const tensor::Tensor& rstd, const tensor::Tensor& x,
                       const tensor::Tensor& weight);

/// Writes dx (T, H) = residual + the gradient of x, given dy, the gradient of y, and rstd as forward wrote it. residual
/// may be dx itself, or empty for none. dweight (H) += Σ_t dy·x·rstd, in a fixed order. dy in partial sums gives what
/// their sum gives: on a device the same bits, on hosts up to rounding. `workspace`: u8, at least
/// norm_workspace_bytes(T, H).
void rmsnorm_backward(const tensor::Exec& exec, const tensor::Tensor& dx, const tensor::Tensor& dweight,
                      const tensor::PartialSums& dy, const tensor::Tensor& x, const tensor::Tensor& rstd,
                      const tensor::Tensor& weight, const tensor::Tensor& residual, const tensor::Tensor& workspace);

/// LayerNorm (Ba et al. 2016): writes mean, rstd = 1/sqrt(var + eps) with var = mean((x − mean)²), and y = weight · (x
/// − mean)·rstd + bias, rounded once. If x is partial sums, the function also writes the sum, to x.sum.
void layernorm_forward(const tensor::Exec& exec, const Outputs& y, const tensor::Tensor& mean,
                       const tensor::Tensor& rstd, const tensor::SumOfPartials& x, const tensor::Tensor& weight,
                       const tensor::Tensor& bias, float eps);

/// Recomputes y from the mean and rstd that forward wrote, with the same bits.
void layernorm_recompute(const tensor::Exec& exec, const Outputs& y, const tensor::Tensor& mean,
                         const tensor::Tensor& rstd, const tensor::Tensor& x, const tensor::Tensor& weight,
                         const tensor::Tensor& bias);

/// As rmsnorm_backward, for LayerNorm: dweight (H) += Σ_t dy·(x − mean)·rstd and dbias (H) += Σ_t dy.
void layernorm_backward(const tensor::Exec& exec, const tensor::Tensor& dx, const tensor::Tensor& dweight,
                        const tensor::Tensor& dbias, const tensor::PartialSums& dy, const tensor::Tensor& x,
                        const tensor::Tensor& mean, const tensor::Tensor& rstd, const tensor::Tensor& weight,
                        const tensor::Tensor& residual, const tensor::Tensor& workspace);

/// Bytes of workspace for the backward of either norm, and for bias_gradient: partial sums of the gradients of
/// parameters. The size does not depend on the number of threads.
std::size_t norm_workspace_bytes(std::int64_t rows, std::int64_t hidden);

}  // namespace shard8::kernels
