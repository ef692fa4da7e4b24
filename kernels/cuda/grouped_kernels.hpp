// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

/// CUTLASS's kernels that multiply many matrices in one launch, one source file a family: they take minutes to compile
/// and see no other part of shard8.
namespace shard8::kernels::cuda {

/// Product g of `groups`: out (rows, cols) [+]= alpha[g] · left (rows, depth) · right (cols, depth)ᵀ. All arrays have
/// an element for each product, lie in device memory and may be written by work that was enqueued before.
struct GroupedProblem {
  int groups = 0;
  const std::int32_t* shapes = nullptr;      ///< (groups, 3): rows, cols, depth. Of products without rows nothing is
                                             ///< read or written; all others need a depth of at least 1
  const void* const* left = nullptr;         ///< addresses, multiples of 16
  const void* const* right = nullptr;        ///< addresses, multiples of 16
  void* const* out = nullptr;                ///< addresses, multiples of 16
  const std::int64_t* left_pitch = nullptr;  ///< elements between lines of the dimension that is not contiguous, here
                                             ///< and below whole multiples of 16 bytes
  const std::int64_t* right_pitch = nullptr;
  const std::int64_t* out_pitch = nullptr;
  const float* alpha = nullptr;                  ///< null: 1
  const void* const* left_scale_inv = nullptr;   ///< addresses of scales of blocks, without gaps; only where the
  const void* const* right_scale_inv = nullptr;  ///< function says so
  bool accumulate = false;                       ///< only where the function says so
  void* workspace = nullptr;                     ///< aligned to 256 bytes
  std::size_t workspace_bytes = 0;
  int multiprocessors = 0;  ///< as many blocks run
  bool clusters = true;  ///< blocks may run as clusters. Not while other kernels use some multiprocessors: they would
                         ///< leave single ones free, on which no cluster fits
  int swizzle = 1;       ///< CUTLASS's: so many rows of tiles are computed side by side, to share what caches hold
};

// Each function enqueues the products for one pair of formats and layouts, and returns whether CUTLASS and the device
// took them. They need at most kGroupedMapsBytes (kernels/planned/device_memory.hpp) of workspace.

/// bf16, both with contiguous depth; writes bf16.
[[nodiscard]] bool run_grouped_bf16_fprop(cudaStream_t stream, const GroupedProblem& problem);
/// bf16, left with contiguous depth, right with contiguous columns; writes bf16.
[[nodiscard]] bool run_grouped_bf16_dgrad(cudaStream_t stream, const GroupedProblem& problem);
/// bf16, left with contiguous rows, right with contiguous columns; writes fp32, may accumulate.
[[nodiscard]] bool run_grouped_bf16_wgrad(cudaStream_t stream, const GroupedProblem& problem);

/// e4m3, both with contiguous depth; accumulates with fewer bits than fp32; writes bf16.
[[nodiscard]] bool run_grouped_fp8_fprop(cudaStream_t stream, const GroupedProblem& problem);
/// e4m3, or with `left_e5m2` e5m2 on the left, both with contiguous depth; writes bf16.
[[nodiscard]] bool run_grouped_fp8_dgrad(cudaStream_t stream, const GroupedProblem& problem, bool left_e5m2);
/// e4m3, or with `left_e5m2` e5m2 on the left, both with contiguous depth; writes fp32, may accumulate.
[[nodiscard]] bool run_grouped_fp8_wgrad(cudaStream_t stream, const GroupedProblem& problem, bool left_e5m2);

// e4m3, or with `left_e5m2` e5m2 on the left, both with contiguous depth, and scales of blocks of 128 along the depth.

/// Scales (rows, depth/128) on the left, (cols/128, depth/128) on the right; writes bf16.
[[nodiscard]] bool run_grouped_blocks_fprop(cudaStream_t stream, const GroupedProblem& problem);
/// Scales (rows, depth/128) on the left, (depth/128, cols/128) on the right; writes bf16.
[[nodiscard]] bool run_grouped_blocks_dgrad(cudaStream_t stream, const GroupedProblem& problem, bool left_e5m2);
/// Scales (depth/128, rows) on the left, (depth/128, cols) on the right, depth/128 rounded up; writes fp32, may
/// accumulate.
[[nodiscard]] bool run_grouped_blocks_wgrad(cudaStream_t stream, const GroupedProblem& problem, bool left_e5m2);

}  // namespace shard8::kernels::cuda
