// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/cutlass_kernel.cuh"

namespace shard8::kernels::cuda {

std::int32_t cutlass_kernels_version() { return CUTLASS_VERSION; }

bool run_cutlass_plain(cudaStream_t stream, const CutlassProblem& problem) {
  return CutlassKernel<cutlass::float_e4m3_t, true, void, cutlass::bfloat16_t>::run(stream, problem);
}

bool run_cutlass_plain_e5m2(cudaStream_t stream, const CutlassProblem& problem) {
  return CutlassKernel<cutlass::float_e5m2_t, true, void, cutlass::bfloat16_t>::run(stream, problem);
}

bool run_cutlass_addend(cudaStream_t stream, const CutlassProblem& problem) {
  return CutlassKernel<cutlass::float_e4m3_t, true, cutlass::bfloat16_t, cutlass::bfloat16_t>::run(stream, problem);
}

bool run_cutlass_vectors(cudaStream_t stream, const CutlassProblem& problem) {
  return CutlassKernel<cutlass::float_e4m3_t, false, float, float>::run(stream, problem);
}

bool run_cutlass_vectors_e5m2(cudaStream_t stream, const CutlassProblem& problem) {
  return CutlassKernel<cutlass::float_e5m2_t, false, float, float>::run(stream, problem);
}

}  // namespace shard8::kernels::cuda
