// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/lt_gemm.hpp"
#include "tensor/operand.hpp"

namespace shard8::kernels::cuda {

/// The products of kernels/gemm.hpp, whose callers have checked what is given. All is in the memory of
/// the device. Operands are brought to what cuBLASLt reads on compute capability 9.0, in `memory`:
///
///   fp32, bf16   as they lie
///   FP8          with what is summed over contiguous: others are transposed, if they are not
///                already (Operand::transposed); their block scales in LtScaling's layouts
///   mxfp8        decoded to bf16
///
/// FP8 with one scale for all sums fast in fprop, where an activation's error is small beside that of
/// the cast; with the partial sums moved to fp32 in dgrad and wgrad (TransformerEngine's defaults).

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

/// Bytes of `memory` for any of the three. `scaling` is that of x by rows, none for any; `transposed`
/// says that inputs and output gradients come transposed where that is needed. Weights do not.
std::size_t gemm_memory_bytes(tensor::DType operands, std::int64_t tokens, std::int64_t inputs, std::int64_t outputs,
                              tensor::Scaling scaling, bool transposed);

}  // namespace shard8::kernels::cuda
