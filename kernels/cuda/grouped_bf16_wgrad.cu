// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/grouped_kernel.cuh"

namespace shard8::kernels::cuda {

bool run_grouped_bf16_wgrad(cudaStream_t stream, const GroupedProblem& problem) {
  using Value = cutlass::bfloat16_t;
  using Tile = TileOf<Value, 128, 256>;
  using Pair = cute::Shape<cute::_2, cute::_1, cute::_1>;
  return GroupedKernel<Value, ColumnMajor, Value, RowMajor, float, true, Tile, Cooperative, false, Pair>::run(stream,
                                                                                                              problem);
}

}  // namespace shard8::kernels::cuda
