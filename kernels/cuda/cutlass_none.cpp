// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/cutlass_gemm.hpp"

/// A build without CUTLASS: cuBLASLt computes all products.
namespace shard8::kernels::cuda {

std::int32_t cutlass_version() { return 0; }

std::vector<CutlassConfig> cutlass_configs(const LtGemmKey&, std::int32_t) { return {}; }

bool enqueue_cutlass(cudaStream_t, const LtGemmKey&, const CutlassArgs&, const CutlassConfig&) { return false; }

}  // namespace shard8::kernels::cuda
