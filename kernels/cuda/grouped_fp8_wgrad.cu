// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/grouped_kernel.cuh"

namespace shard8::kernels::cuda {

bool run_grouped_fp8_wgrad(cudaStream_t stream, const GroupedProblem& problem, bool left_e5m2) {
  using E4m3 = cutlass::float_e4m3_t;
  using E5m2 = cutlass::float_e5m2_t;
  using Tile = TileOf<E4m3, 128, 256>;
  return left_e5m2
             ? GroupedKernel<E5m2, RowMajor, E4m3, ColumnMajor, float, true, Tile, Cooperative>::run(stream, problem)
             : GroupedKernel<E4m3, RowMajor, E4m3, ColumnMajor, float, true, Tile, Cooperative>::run(stream, problem);
}

}  // namespace shard8::kernels::cuda
