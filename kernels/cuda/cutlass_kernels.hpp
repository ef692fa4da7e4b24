// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

/// The kernels themselves, one source file a family: they take minutes to compile and see no other part of shard8.
namespace shard8::kernels::cuda {

/// out (rows, cols) = left (rows, depth) · right (cols, depth)ᵀ [+ added (rows, cols)], all row-major and in device
/// memory. depth is a multiple of 128, cols of 16 bytes, rows of 4.
struct CutlassProblem {
  int rows = 0, cols = 0, depth = 0;
  const void* left = nullptr;
  const void* right = nullptr;
  const float* left_scale_inv = nullptr;   ///< (depth/128, rows)
  const float* right_scale_inv = nullptr;  ///< LtScaling::tile_128, or (depth/128, cols)
  const void* added = nullptr;             ///< null: nothing is added
  void* out = nullptr;
  int swizzle = 1;          ///< CutlassConfig::swizzle
  bool along_rows = true;   ///< CutlassConfig::along_rows
  int multiprocessors = 0;  ///< of the device: as many blocks run
};

/// The version of CUTLASS, as CutlassConfig::version.
std::int32_t cutlass_kernels_version();

// Each function enqueues a product for one pair of formats, and returns whether CUTLASS and the device took it.

/// Writes bf16 without an addend: CutlassArgs::added is null. The left matrix is e4m3 with 1×128 scales, the right one
/// e4m3 with 128×128 scales.
[[nodiscard]] bool run_cutlass_plain(cudaStream_t stream, const CutlassProblem& problem);
/// As run_cutlass_plain, and adds CutlassArgs::added, which must not be null.
[[nodiscard]] bool run_cutlass_addend(cudaStream_t stream, const CutlassProblem& problem);
/// As run_cutlass_plain, with a left matrix in e5m2.
[[nodiscard]] bool run_cutlass_plain_e5m2(cudaStream_t stream, const CutlassProblem& problem);

/// Writes fp32, to which CutlassArgs::added is added unless it is null. Both matrices are e4m3 with 1×128 scales.
[[nodiscard]] bool run_cutlass_vectors(cudaStream_t stream, const CutlassProblem& problem);
/// As run_cutlass_vectors, with a left matrix in e5m2.
[[nodiscard]] bool run_cutlass_vectors_e5m2(cudaStream_t stream, const CutlassProblem& problem);

}  // namespace shard8::kernels::cuda
