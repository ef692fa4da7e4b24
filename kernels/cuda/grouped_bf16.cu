// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/grouped_kernel.cuh"

namespace shard8::kernels::cuda {

using Value = cutlass::bfloat16_t;
using Tile = TileOf<Value, 128, 256>;

bool run_grouped_bf16_fprop(cudaStream_t stream, const GroupedProblem& problem) {
  return GroupedKernel<Value, RowMajor, Value, ColumnMajor, Value, false, Tile, Cooperative>::run(stream, problem);
}

bool run_grouped_bf16_dgrad(cudaStream_t stream, const GroupedProblem& problem) {
  return GroupedKernel<Value, RowMajor, Value, RowMajor, Value, false, Tile, Cooperative>::run(stream, problem);
}

}  // namespace shard8::kernels::cuda
