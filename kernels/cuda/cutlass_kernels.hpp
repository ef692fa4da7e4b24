// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

/// CUTLASS's kernels for one product (cutlass_kernels.cu). The kernels take minutes to compile, so their sources see no
/// other part of shard8.
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

/// CUTLASS's kernels that multiply many matrices in one launch: fprop and dgrad in grouped_products.cu, wgrad in
/// grouped_wgrad.cu.
namespace shard8::kernels::cuda {

/// Product g of `groups`: out (rows, cols) [+]= alpha[g] · left (rows, depth) · right (cols, depth)ᵀ. All arrays have
/// an element for each product, lie in device memory and may be written by work that was enqueued before.
struct GroupedProblem {
  int groups = 0;
  const std::int32_t* shapes = nullptr;      ///< (groups, 3): rows, cols, depth. Nothing is read or written for
                                             ///< products without rows; all others need a depth of at least 1
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
  bool clusters = true;     ///< blocks may run as clusters. False while other kernels use some multiprocessors: these
                            ///< kernels leave single multiprocessors free, on which no cluster fits
  int swizzle = 1;          ///< CUTLASS's: so many rows of tiles are computed side by side, to share what caches hold
};

// Each function enqueues the products for one pair of formats and layouts, and returns whether CUTLASS and the device
// took them. The products of one call need at most kGroupedMapsBytes (kernels/planned/device_memory.hpp) of workspace.

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

/// The kernels that prepare grouped products from sizes that only the device knows.
namespace shard8::kernels::cuda {

/// Where group g has its part of a matrix or of its scales: at base + g · group_bytes + first[g] / block · line_bytes.
struct GroupedMatrix {
  const void* base = nullptr;
  std::int64_t group_bytes = 0, line_bytes = 0;
  std::int64_t pitch = 0;  ///< elements, as in GroupedProblem; of scales not used
  std::int32_t block = 1;  ///< rows of a line
};

/// What GroupedProblem's arrays are made of.
struct GroupedLayout {
  const std::int32_t* first = nullptr;  ///< (groups) in device memory
  const std::int32_t* rows = nullptr;   ///< (groups) in device memory
  int groups = 0;
  /// Product g is (rows[g], cols, depth); with `sums_rows` it is (lines, cols, rows[g]), or has no rows if rows[g] is
  /// 0.
  bool sums_rows = false;
  std::int32_t lines = 0, cols = 0, depth = 0;
  GroupedMatrix left, right, out;
  GroupedMatrix left_scales, right_scales;  ///< inverse scales of blocks; base null: there are none
  /// Inverse scales of whole matrices: alpha[g] is their product. Null: there are none.
  const float* left_scale_inv = nullptr;
  const float* right_scale_inv = nullptr;
  bool right_scale_each = false;  ///< right_scale_inv has one for each group, else one in all
};

/// Enqueues the kernel that writes the arrays of a GroupedProblem to `memory`, kGroupedArrayBytes
/// (kernels/planned/device_memory.hpp) for each group, aligned to 16, and returns the problem. Workspace, accumulate
/// and multiprocessors are not set.
GroupedProblem prepare_grouped(cudaStream_t stream, const GroupedLayout& layout, void* memory);

/// Sets `bytes` bytes, a multiple of 16, at out + g · bytes to zeros for every group g without rows. `out` must be a
/// multiple of 16.
void zero_empty_groups(cudaStream_t stream, void* out, std::int64_t bytes, const std::int32_t* rows, int groups);

}  // namespace shard8::kernels::cuda
