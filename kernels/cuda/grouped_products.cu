// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/grouped_kernel.cuh"

namespace shard8::kernels::cuda {
namespace {

template <class RightLayout>
using Bf16Kernel = GroupedKernel<Bf16, RowMajor, Bf16, RightLayout, Bf16, false, TileOf<Bf16, 128, 256>, Cooperative>;

/// Sums that are not fast need registers for two accumulators: they do not fit for tiles 256 wide.
template <class Left, bool kFast>
using Fp8Kernel = GroupedKernel<Left, RowMajor, E4m3, ColumnMajor, Bf16, false, TileOf<E4m3, 128, kFast ? 256 : 192>,
                                Cooperative, kFast>;

template <class Left, Major kRightScales>
using BlocksKernel =
    typename GroupedBlocks<Left, Major::K, 128, kRightScales, Bf16, false, TileOf<E4m3, 128, 128>, Cooperative>::Kernel;

}  // namespace

bool run_grouped_bf16_fprop(cudaStream_t stream, const GroupedProblem& problem) {
  return Bf16Kernel<ColumnMajor>::run(stream, problem);
}

bool run_grouped_bf16_dgrad(cudaStream_t stream, const GroupedProblem& problem) {
  return Bf16Kernel<RowMajor>::run(stream, problem);
}

bool run_grouped_fp8_fprop(cudaStream_t stream, const GroupedProblem& problem) {
  return Fp8Kernel<E4m3, true>::run(stream, problem);
}

bool run_grouped_fp8_dgrad(cudaStream_t stream, const GroupedProblem& problem, bool left_e5m2) {
  return left_e5m2 ? Fp8Kernel<E5m2, false>::run(stream, problem) : Fp8Kernel<E4m3, false>::run(stream, problem);
}

bool run_grouped_blocks_fprop(cudaStream_t stream, const GroupedProblem& problem) {
  return BlocksKernel<E4m3, Major::K>::run(stream, problem);
}

bool run_grouped_blocks_dgrad(cudaStream_t stream, const GroupedProblem& problem, bool left_e5m2) {
  return left_e5m2 ? BlocksKernel<E5m2, Major::MN>::run(stream, problem)
                   : BlocksKernel<E4m3, Major::MN>::run(stream, problem);
}

}  // namespace shard8::kernels::cuda
