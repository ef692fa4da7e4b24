// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/grouped_kernel.cuh"

namespace shard8::kernels::cuda {
namespace {

using E4m3 = cutlass::float_e4m3_t;
using E5m2 = cutlass::float_e5m2_t;

template <class Left>
using Kernel = GroupedKernel<Left, RowMajor, E4m3, ColumnMajor, float, true, TileOf<E4m3, 128, 192>, Cooperative>;

}  // namespace

bool run_grouped_fp8_wgrad(cudaStream_t stream, const GroupedProblem& problem, bool left_e5m2) {
  return left_e5m2 ? Kernel<E5m2>::run(stream, problem) : Kernel<E4m3>::run(stream, problem);
}

}  // namespace shard8::kernels::cuda
