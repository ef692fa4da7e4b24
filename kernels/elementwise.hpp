// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/quantize.hpp"
#include "tensor/operand.hpp"
#include "tensor/runtime.hpp"
#include "tensor/tensor.hpp"

namespace shard8::kernels {

/// out (T, H) = x + y [+ bias (H) on every row, if bias is not empty], added in fp32 and rounded once. All have one
/// dtype, fp32 or bf16. out may be x or y.
void residual_add(const tensor::Exec& exec, const tensor::Tensor& out, const tensor::Tensor& x, const tensor::Tensor& y,
                  const tensor::Tensor& bias);

/// Writes x.sum, added in fp32 in the order of the partial sums and rounded once; fp32 or bf16. Does nothing if x is
/// made.
void make_sum(const tensor::Exec& exec, const tensor::SumOfPartials& x);

/// dbias (H) fp32 += the column sums of dy (T, H), fp32 or bf16, in a fixed order. `workspace`: u8, at least
/// norm_workspace_bytes(T, H).
void bias_gradient(const tensor::Exec& exec, const tensor::Tensor& dbias, const tensor::Tensor& dy,
                   const tensor::Tensor& workspace);

/// out = in; counts must be equal. fp32 is converted to bf16 (rounded to nearest even) and bf16 to fp32; equal dtypes,
/// of any kind, are copied. Any other pair of dtypes is an Error(failed).
void cast(const tensor::Exec& exec, const tensor::Tensor& out, const tensor::Tensor& in);

/// One call of cast().
struct Cast {
  tensor::Tensor out, in;
};
/// The largest number of casts that one kernel of cast_each() runs.
inline constexpr std::size_t kCastsAtOnce = 16;
/// Runs cast() for each of `casts`. On a device one kernel runs all of them if there are at most kCastsAtOnce and all
/// convert between the same two dtypes. Otherwise each has a kernel of its own. No `out` may overlap another's tensors.
void cast_each(const tensor::Exec& exec, std::span<const Cast> casts);

/// sum += x, element by element, added in fp32. sum is fp32, x fp32 or bf16. Other dtypes, or tensors with different
/// numbers of elements, are an Error(failed).
void add_gradients(const tensor::Exec& exec, const tensor::Tensor& sum, const tensor::Tensor& x);

/// Sets all bytes to 0, which is zero in every dtype but e8m0. `out` may have any dtype.
void fill_zero(const tensor::Exec& exec, const tensor::Tensor& out);
/// Sets every element to 1. `out` is fp32, bf16, i32 or u8; any other dtype is an Error(failed).
void fill_one(const tensor::Exec& exec, const tensor::Tensor& out);

/// Where a box lies in a global tensor: element (r, c) of the box has the global index offset + r·row_stride +
/// c·col_stride. Offset and strides count elements.
struct GlobalIndex {
  std::int64_t offset = 0, row_stride = 0, col_stride = 1;
};

/// Fills out (R, C) fp32 with normal numbers of mean 0 and the given standard deviation. Each number depends on (key,
/// global index) alone, so every mesh creates the same tensor. The generator is counter-based: splitmix64 of key and
/// index, then the Box–Muller transform in double.
void normal_fill(const tensor::Exec& exec, const tensor::Tensor& out, std::uint64_t key, const GlobalIndex& index,
                 double standard_deviation);

/// The key of a tensor: a hash of the seed and of the tensor's Hugging Face name. Runs on the host.
std::uint64_t random_key(std::uint64_t seed, const char* name);

/// Activation functions. All tensors of a call have one dtype, fp32 or bf16. Formulas are computed in fp32. `Outputs`
/// says where a result is written: as it is, its amax, its FP8 cast.
/// Backward can also recompute the result of forward, in the same pass where it can. `recomputed` says where to write
/// the recomputed result; an empty `recomputed` requests nothing. The recomputed result has the same bits as the result
/// of forward for the same input.
/// A tensor with another dtype or count than stated is an Error(failed).

/// SwiGLU (Shazeer 2020): writes a (T, F) = silu(gate)·up. gate_up is (T, 2F); each row is [gate | up].
void swiglu_forward(const tensor::Exec& exec, const Outputs& a, const tensor::Tensor& gate_up);
/// Writes dgate_up (T, 2F), the gradient of gate_up, given da (T, F), the gradient of a. dgate_up.plain may be gate_up
/// itself. `recomputed` receives a (T, F).
void swiglu_backward(const tensor::Exec& exec, const Outputs& dgate_up, const tensor::Tensor& da,
                     const tensor::Tensor& gate_up, const Outputs& recomputed = {});

/// GELU in the tanh form (Hendrycks & Gimpel 2016; "gelu_new"): writes a (T, F) = gelu(x), with x (T, F).
void gelu_forward(const tensor::Exec& exec, const Outputs& a, const tensor::Tensor& x);
/// Writes dx (T, F), the gradient of x, given da (T, F), the gradient of a. dx.plain may be x itself. `recomputed`
/// receives a (T, F).
void gelu_backward(const tensor::Exec& exec, const Outputs& dx, const tensor::Tensor& da, const tensor::Tensor& x,
                   const Outputs& recomputed = {});

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
