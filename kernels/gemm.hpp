// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "kernels/workspace.hpp"
#include "tensor/exec.hpp"
#include "tensor/operand.hpp"

namespace shard8::kernels {

/// The three matrix products of a linear layer with weight w (N, K). All operands are row-major;
/// T tokens, K inputs, N outputs. Operands are fp32 or bf16 (x, w, dy of one dtype) or FP8; the
/// product is accumulated in fp32 and rounded once to the output's dtype. With bf16 and FP8 operands
/// on the host, tiles are decoded to fp32 in `workspace` and multiplied in fp32. On NVIDIA's devices
/// cuBLASLt multiplies, with the algorithms of workspace.libraries. cuBLASLt reads FP8 operands only with the summed
/// dimension contiguous: the product transposes those that are not, unless they come transposed (Operand::transposed,
/// which hosts refuse). Operands with 1×32 or 32×1 blocks are decoded to bf16 there, an emulation.
///
/// FP8 operands are e4m3 or e5m2 (not both e5m2). Blocks must run along the summed dimension: fprop reads x and w by rows,
/// dgrad dy by rows and w by columns, wgrad dy and x by columns. One scale for the whole tensor serves both directions,
/// and so do 128×128 blocks, which only weights have. Any other scaling is an error. On the host, tensor scales multiply
/// the fp32 sum, as cuBLASLt does; block scales multiply the decoded elements, which is exact for powers of two. The
/// output is fp32 or bf16; a bias has the output's dtype.
///
/// The workspace must have at least gemm_workspace_bytes() of u8 memory. On hosts fp32 products do not touch it.

/// y (T, N) = x (T, K) · wᵀ [+ bias (N) of x's dtype, if not empty] [+ residual (T, N) of y's dtype, if
/// not empty; hosts refuse it]. bf16 operands give fp32 or bf16; fp32 operands give fp32 (dgrad too).
void gemm_fprop(const tensor::Exec& exec, const tensor::Tensor& y, const tensor::Operand& x, const tensor::Operand& w,
                const tensor::Tensor& bias, const Workspace& workspace, const tensor::Tensor& residual = {});

/// dx (T, K) = dy (T, N) · w (N, K). With accumulate, dx += (fp32 dx only).
void gemm_dgrad(const tensor::Exec& exec, const tensor::Tensor& dx, const tensor::Operand& dy, const tensor::Operand& w,
                bool accumulate, const Workspace& workspace);

/// dw (N, K) fp32 (+)= dyᵀ (N, T) · x (T, K).
void gemm_wgrad(const tensor::Exec& exec, const tensor::Tensor& dw, const tensor::Operand& dy, const tensor::Operand& x,
                bool accumulate, const Workspace& workspace);

/// Bytes of workspace that each of the three products needs for up to `tokens`, `inputs` and `outputs`. On hosts 0 for
/// fp32, at most a few tiles for bf16 and FP8. On devices enough for cuBLASLt and, with FP8, for copies of operands. There
/// are fewer copies where `scaling`, how x is scaled by rows, is known (none: any scaling), and where x and dy come
/// `transposed` to wgrad; the weight of dgrad does not.
std::size_t gemm_workspace_bytes(tensor::DType operands, std::int64_t tokens, std::int64_t inputs, std::int64_t outputs,
                                 tensor::Scaling scaling = tensor::Scaling::none, bool transposed = false);

}  // namespace shard8::kernels
