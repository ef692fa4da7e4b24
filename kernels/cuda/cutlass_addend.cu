// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/cutlass_kernel.cuh"

namespace shard8::kernels::cuda {

bool run_cutlass_addend(cudaStream_t stream, const CutlassProblem& problem) {
  return CutlassKernel<cutlass::float_e4m3_t, true, cutlass::bfloat16_t, cutlass::bfloat16_t>::run(stream, problem);
}

}  // namespace shard8::kernels::cuda
