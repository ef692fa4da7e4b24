// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/cutlass_gemm.hpp"

#include "kernels/cuda/gemm.hpp"

/// A build without CUTLASS: cuBLASLt computes all products.
namespace shard8::kernels::cuda {

std::int32_t cutlass_version() { return 0; }

std::vector<CutlassConfig> cutlass_configs(const LtGemmKey&, std::int32_t) { return {}; }

bool enqueue_cutlass(cudaStream_t, const LtGemmKey&, const CutlassArgs&, const CutlassConfig&) { return false; }

}  // namespace shard8::kernels::cuda

/// A build without CUTLASS: the host multiplies group by group.
namespace shard8::kernels::cuda {

bool has_grouped_kernel(tensor::DType, tensor::Scaling, std::int64_t, std::int64_t) { return false; }

bool grouped_gemm_fprop(cudaStream_t, const tensor::Tensor&, const tensor::Operand&, const tensor::Operand&,
                        const RowGroups&, const Workspace&) {
  return false;
}

bool grouped_gemm_dgrad(cudaStream_t, const tensor::Tensor&, const tensor::Operand&, const tensor::Operand&,
                        const RowGroups&, const Workspace&) {
  return false;
}

bool grouped_gemm_wgrad(cudaStream_t, const tensor::Tensor&, const tensor::Operand&, const tensor::Operand&,
                        const RowGroups&, bool, const Workspace&) {
  return false;
}

}  // namespace shard8::kernels::cuda
