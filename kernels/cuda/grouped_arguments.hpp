// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/grouped_kernels.hpp"

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
