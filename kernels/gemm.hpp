// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "tensor/exec.hpp"
#include "tensor/tensor.hpp"

namespace shard8::kernels {

/// The three matrix products of a linear layer with weight w (N, K). All operands are row-major;
/// T tokens, K inputs, N outputs. Operands are fp32 or bf16 (x, w, dy of one dtype); the product is
/// accumulated in fp32 and rounded once to the output's dtype. With bf16 operands on the host,
/// tiles are decoded to fp32 in `workspace` and multiplied in fp32.
///
/// `workspace` is u8 memory of at least gemm_workspace_bytes(); fp32 products do not touch it.

/// y (T, N) = x (T, K) · wᵀ [+ bias (N) of x's dtype, if not empty]. bf16 operands give fp32 or
/// bf16; fp32 operands give fp32 (dgrad too).
void gemm_fprop(const tensor::Exec& exec, const tensor::Tensor& y, const tensor::Tensor& x, const tensor::Tensor& w,
                const tensor::Tensor& bias, const tensor::Tensor& workspace);

/// dx (T, K) = dy (T, N) · w (N, K). With accumulate, dx += (fp32 dx only).
void gemm_dgrad(const tensor::Exec& exec, const tensor::Tensor& dx, const tensor::Tensor& dy, const tensor::Tensor& w,
                bool accumulate, const tensor::Tensor& workspace);

/// dw (N, K) fp32 (+)= dyᵀ (N, T) · x (T, K).
void gemm_wgrad(const tensor::Exec& exec, const tensor::Tensor& dw, const tensor::Tensor& dy, const tensor::Tensor& x,
                bool accumulate, const tensor::Tensor& workspace);

/// Workspace that any of the three needs for products of up to T tokens, K inputs and N outputs;
/// 0 for fp32, bounded (tiles) for bf16.
std::size_t gemm_workspace_bytes(tensor::DType operands, std::int64_t tokens, std::int64_t inputs,
                                 std::int64_t outputs);

}  // namespace shard8::kernels
