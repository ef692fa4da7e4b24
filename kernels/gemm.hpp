// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "tensor/exec.hpp"
#include "tensor/operand.hpp"

namespace shard8::kernels {

/// The three matrix products of a linear layer with weight w (N, K). All operands are row-major;
/// T tokens, K inputs, N outputs. Operands are fp32 or bf16 (x, w, dy of one dtype) or FP8; the
/// product is accumulated in fp32 and rounded once to the output's dtype. With bf16 and FP8 operands
/// on the host, tiles are decoded to fp32 in `workspace` and multiplied in fp32.
///
/// FP8 operands are e4m3 or e5m2 (not both e5m2), and each must be scaled along what is summed over:
/// fprop reads x and w by rows, dgrad dy by rows and w by columns, wgrad dy and x by columns. Either
/// way serves one scale for all and, of weights, which alone have them, 128×128 blocks. Another
/// scaling is an error. On the host, tensor scales multiply the fp32 sum, as cuBLASLt does; block
/// scales the decoded elements, exact where they are powers of two. The output is fp32 or bf16, the
/// bias of the output's dtype.
///
/// `workspace` is u8 memory of at least gemm_workspace_bytes(); fp32 products do not touch it.

/// y (T, N) = x (T, K) · wᵀ [+ bias (N) of x's dtype, if not empty]. bf16 operands give fp32 or
/// bf16; fp32 operands give fp32 (dgrad too).
void gemm_fprop(const tensor::Exec& exec, const tensor::Tensor& y, const tensor::Operand& x, const tensor::Operand& w,
                const tensor::Tensor& bias, const tensor::Tensor& workspace);

/// dx (T, K) = dy (T, N) · w (N, K). With accumulate, dx += (fp32 dx only).
void gemm_dgrad(const tensor::Exec& exec, const tensor::Tensor& dx, const tensor::Operand& dy, const tensor::Operand& w,
                bool accumulate, const tensor::Tensor& workspace);

/// dw (N, K) fp32 (+)= dyᵀ (N, T) · x (T, K).
void gemm_wgrad(const tensor::Exec& exec, const tensor::Tensor& dw, const tensor::Operand& dy, const tensor::Operand& x,
                bool accumulate, const tensor::Tensor& workspace);

/// Workspace that any of the three needs for products of up to T tokens, K inputs and N outputs;
/// 0 for fp32, bounded (tiles) for bf16 and FP8.
std::size_t gemm_workspace_bytes(tensor::DType operands, std::int64_t tokens, std::int64_t inputs,
                                 std::int64_t outputs);

}  // namespace shard8::kernels
