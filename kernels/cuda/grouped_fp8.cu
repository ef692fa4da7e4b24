// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/grouped_kernel.cuh"

namespace shard8::kernels::cuda {
namespace {

using E4m3 = cutlass::float_e4m3_t;
using E5m2 = cutlass::float_e5m2_t;

/// Sums that are not fast need registers for two accumulators: they do not fit for tiles 256 wide.
template <class Left, bool kFast>
using Kernel = GroupedKernel<Left, RowMajor, E4m3, ColumnMajor, cutlass::bfloat16_t, false,
                             TileOf<E4m3, 128, kFast ? 256 : 192>, Cooperative, kFast>;

}  // namespace

bool run_grouped_fp8_fprop(cudaStream_t stream, const GroupedProblem& problem) {
  return Kernel<E4m3, true>::run(stream, problem);
}

bool run_grouped_fp8_dgrad(cudaStream_t stream, const GroupedProblem& problem, bool left_e5m2) {
  return left_e5m2 ? Kernel<E5m2, false>::run(stream, problem) : Kernel<E4m3, false>::run(stream, problem);
}

}  // namespace shard8::kernels::cuda
