// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/lt_gemm.hpp"
#include "tensor/operand.hpp"

namespace shard8::kernels::cuda {

/// The products of kernels/gemm.hpp on a device. Callers must have checked the arguments by check_product(); all
/// tensors are in the device's memory. Operands are converted in `memory` to what cuBLASLt reads on compute capability
/// 9.0:
///
///   fp32, bf16   read as stored
///   FP8          the summed dimension must be contiguous: other operands are transposed, unless they are stored
///                transposed already (Operand::transposed); block scales are converted to LtScaling's layouts
///   mxfp8        decoded to bf16
///
/// FP8 products with one scale for the whole tensor use fast accumulation in fprop: its error is small compared with
/// the error of the cast. In dgrad and wgrad partial sums are moved to fp32. These are TransformerEngine's defaults.
/// `memory` must have gemm_memory_bytes(); too little is an Error(failed).

/// y (T, N) = x (T, K) · w (N, K)ᵀ [+ bias (N)] [+ residual (T, N), of y's dtype; K must not be 0]. FP8 operands with a
/// residual and an fp32 bias are an Error(failed).
void gemm_fprop(LtGemm& gemm, cudaStream_t stream, const tensor::Tensor& y, const tensor::Operand& x,
                const tensor::Operand& w, const tensor::Tensor& bias, const tensor::Tensor& memory,
                const tensor::Tensor& residual = {});
/// dx (T, K) [+]= dy (T, N) · w (N, K)
void gemm_dgrad(LtGemm& gemm, cudaStream_t stream, const tensor::Tensor& dx, const tensor::Operand& dy,
                const tensor::Operand& w, bool accumulate, const tensor::Tensor& memory);
/// dw (N, K) [+]= dy (T, N)ᵀ · x (T, K)
void gemm_wgrad(LtGemm& gemm, cudaStream_t stream, const tensor::Tensor& dw, const tensor::Operand& dy,
                const tensor::Operand& x, bool accumulate, const tensor::Tensor& memory);

}  // namespace shard8::kernels::cuda
