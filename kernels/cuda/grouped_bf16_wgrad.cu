// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/grouped_kernel.cuh"

namespace shard8::kernels::cuda {

namespace {

using Value = cutlass::bfloat16_t;
using Pair = cute::Shape<cute::_2, cute::_1, cute::_1>;

template <class Cluster>
using Kernel = GroupedKernel<Value, ColumnMajor, Value, RowMajor, float, true, TileOf<Value, 128, 256>, Cooperative,
                             false, Cluster>;

}  // namespace

bool run_grouped_bf16_wgrad(cudaStream_t stream, const GroupedProblem& problem) {
  return problem.clusters ? Kernel<Pair>::run(stream, problem) : Kernel<OneBlock>::run(stream, problem);
}

}  // namespace shard8::kernels::cuda
