// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/grouped_gemm.hpp"

/// The products of kernels/grouped_gemm.hpp by CUTLASS's kernels, which read the sizes of groups on the device. Callers
/// must have checked the arguments; all tensors are in the device's memory. Operands are read as kernels/cuda/gemm.hpp
/// says: FP8 with the summed dimension contiguous, so the weights of dgrad, and operands of wgrad that do not lie
/// transposed, are transposed in the workspace, all groups at once. fprop of FP8 operands uses fast accumulation.
namespace shard8::kernels::cuda {

/// Whether a kernel multiplies operands of this dtype and rowwise scaling to bf16 (wgrad: fp32), with weights of
/// (outputs, inputs), on the current device. Never in a build without CUTLASS.
bool has_grouped_kernel(tensor::DType operands, tensor::Scaling scaling, std::int64_t inputs, std::int64_t outputs);

// Each enqueues the product on `stream` and returns true; if no kernel takes it, nothing is enqueued that changes the
// result, and false is returned. `workspace` must have grouped_gemm_memory_bytes(); too little is an Error(failed).

[[nodiscard]] bool grouped_gemm_fprop(cudaStream_t stream, const tensor::Tensor& y, const tensor::Operand& x,
                                      const tensor::Operand& w, const RowGroups& groups, const Workspace& workspace);
[[nodiscard]] bool grouped_gemm_dgrad(cudaStream_t stream, const tensor::Tensor& dx, const tensor::Operand& dy,
                                      const tensor::Operand& w, const RowGroups& groups, const Workspace& workspace);
[[nodiscard]] bool grouped_gemm_wgrad(cudaStream_t stream, const tensor::Tensor& dw, const tensor::Operand& dy,
                                      const tensor::Operand& x, const RowGroups& groups, bool accumulate,
                                      const Workspace& workspace);

}  // namespace shard8::kernels::cuda
