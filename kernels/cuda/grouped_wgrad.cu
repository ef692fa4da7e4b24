// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/grouped_kernel.cuh"

namespace shard8::kernels::cuda {
namespace {

using Pair = cute::Shape<cute::_2, cute::_1, cute::_1>;

template <class Cluster>
using Bf16Kernel =
    GroupedKernel<Bf16, ColumnMajor, Bf16, RowMajor, float, true, TileOf<Bf16, 128, 256>, Cooperative, false, Cluster>;

template <class Left>
using Fp8Kernel = GroupedKernel<Left, RowMajor, E4m3, ColumnMajor, float, true, TileOf<E4m3, 128, 192>, Cooperative>;

template <class Left>
using BlocksKernel =
    typename GroupedBlocks<Left, Major::MN, 1, Major::MN, float, true, TileOf<E4m3, 128, 128>, Cooperative>::Kernel;

}  // namespace

bool run_grouped_bf16_wgrad(cudaStream_t stream, const GroupedProblem& problem) {
  return problem.clusters ? Bf16Kernel<Pair>::run(stream, problem) : Bf16Kernel<OneBlock>::run(stream, problem);
}

bool run_grouped_fp8_wgrad(cudaStream_t stream, const GroupedProblem& problem, bool left_e5m2) {
  return left_e5m2 ? Fp8Kernel<E5m2>::run(stream, problem) : Fp8Kernel<E4m3>::run(stream, problem);
}

bool run_grouped_blocks_wgrad(cudaStream_t stream, const GroupedProblem& problem, bool left_e5m2) {
  return left_e5m2 ? BlocksKernel<E5m2>::run(stream, problem) : BlocksKernel<E4m3>::run(stream, problem);
}

}  // namespace shard8::kernels::cuda
