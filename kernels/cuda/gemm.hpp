// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/lt_gemm.hpp"
#include "tensor/operand.hpp"

namespace shard8::kernels::cuda {

/// The products of kernels/gemm.hpp. Callers must have checked the arguments; all tensors are in the device's memory.
/// Operands are converted in `memory` to what cuBLASLt reads on compute capability 9.0:
///
///   fp32, bf16   read as stored
///   FP8          the summed dimension must be contiguous: others are transposed, unless they come so
///                (Operand::transposed); block scales are brought to LtScaling's layouts
///   mxfp8        decoded to bf16
///
/// FP8 products with one scale for all use fast accumulation in fprop, where its error is small compared with the
/// cast's; in dgrad and wgrad partial sums are moved to fp32 (TransformerEngine's defaults).

/// y (T, N) = x (T, K) · w (N, K)ᵀ [+ bias (N)] [+ residual (T, N)]
void gemm_fprop(LtGemm& gemm, cudaStream_t stream, const tensor::Tensor& y, const tensor::Operand& x,
                const tensor::Operand& w, const tensor::Tensor& bias, const tensor::Tensor& memory,
                const tensor::Tensor& residual = {});
/// dx (T, K) [+]= dy (T, N) · w (N, K)
void gemm_dgrad(LtGemm& gemm, cudaStream_t stream, const tensor::Tensor& dx, const tensor::Operand& dy,
                const tensor::Operand& w, bool accumulate, const tensor::Tensor& memory);
/// dw (N, K) [+]= dy (T, N)ᵀ · x (T, K)
void gemm_wgrad(LtGemm& gemm, cudaStream_t stream, const tensor::Tensor& dw, const tensor::Operand& dy,
                const tensor::Operand& x, bool accumulate, const tensor::Tensor& memory);

/// Bytes of `memory` for each of the three products. `scaling`: how x is scaled by rows, none for any scaling.
/// `transposed`: x and dy come transposed where that is needed; weights never do.
std::size_t gemm_memory_bytes(tensor::DType operands, std::int64_t tokens, std::int64_t inputs, std::int64_t outputs,
                              tensor::Scaling scaling, bool transposed);

}  // namespace shard8::kernels::cuda
