// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/cutlass_kernels.hpp"

#include <algorithm>

#include "tensor/cuda/device.hpp"

namespace shard8::kernels::cuda {
namespace {

constexpr int kThreads = 256;

struct Arrays {
  const void** left;
  const void** right;
  void** out;
  std::int64_t *left_pitch, *right_pitch, *out_pitch;
  const void** left_scales;
  const void** right_scales;
  std::int32_t* shapes;
  float* alpha;
};

Arrays arrays_at(void* memory, std::int64_t groups) {
  auto* const words = static_cast<std::int64_t*>(memory);
  Arrays a{};
  a.left = reinterpret_cast<const void**>(words);
  a.right = reinterpret_cast<const void**>(words + groups);
  a.out = reinterpret_cast<void**>(words + 2 * groups);
  a.left_pitch = words + 3 * groups;
  a.right_pitch = words + 4 * groups;
  a.out_pitch = words + 5 * groups;
  a.left_scales = reinterpret_cast<const void**>(words + 6 * groups);
  a.right_scales = reinterpret_cast<const void**>(words + 7 * groups);
  a.shapes = reinterpret_cast<std::int32_t*>(words + 8 * groups);
  a.alpha = reinterpret_cast<float*>(a.shapes + 3 * groups);
  return a;
}

__device__ __forceinline__ const void* part_of(const GroupedMatrix& m, int group, std::int64_t first) {
  return static_cast<const char*>(m.base) + group * m.group_bytes + first / m.block * m.line_bytes;
}

__global__ void __launch_bounds__(kThreads) prepare_kernel(GroupedLayout layout, Arrays a) {
  const int g = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (g >= layout.groups) return;
  const std::int32_t rows = layout.rows[g];
  // Nothing is read of an empty group, whose first row may be anything; its addresses stay inside the matrices.
  const std::int64_t first = rows > 0 ? layout.first[g] : 0;
  a.left[g] = part_of(layout.left, g, first);
  a.right[g] = part_of(layout.right, g, first);
  a.out[g] = const_cast<void*>(part_of(layout.out, g, first));
  a.left_pitch[g] = layout.left.pitch;
  a.right_pitch[g] = layout.right.pitch;
  a.out_pitch[g] = layout.out.pitch;
  a.left_scales[g] = part_of(layout.left_scales, g, first);
  a.right_scales[g] = part_of(layout.right_scales, g, first);
  a.shapes[3 * g] = layout.sums_rows ? (rows > 0 ? layout.lines : 0) : rows;
  a.shapes[3 * g + 1] = layout.cols;
  a.shapes[3 * g + 2] = layout.sums_rows ? rows : layout.depth;
  if (layout.left_scale_inv == nullptr) return;
  a.alpha[g] = layout.left_scale_inv[0] * layout.right_scale_inv[layout.right_scale_each ? g : 0];
}

__global__ void __launch_bounds__(kThreads) zero_kernel(uint4* out, std::int64_t count, const std::int32_t* rows) {
  const std::int64_t g = blockIdx.y;
  if (rows[g] != 0) return;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += step)
    out[g * count + i] = uint4{0, 0, 0, 0};
}

}  // namespace

GroupedProblem prepare_grouped(cudaStream_t stream, const GroupedLayout& layout, void* memory) {
  const Arrays a = arrays_at(memory, layout.groups);
  const int blocks = (layout.groups + kThreads - 1) / kThreads;
  prepare_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(layout, a);
  SHARD8_CUDA_CHECK_LAUNCH("prepare_grouped");
  GroupedProblem p;
  p.groups = layout.groups;
  p.shapes = a.shapes;
  p.left = a.left;
  p.right = a.right;
  p.out = a.out;
  p.left_pitch = a.left_pitch;
  p.right_pitch = a.right_pitch;
  p.out_pitch = a.out_pitch;
  if (layout.left_scales.base != nullptr) {
    p.left_scale_inv = a.left_scales;
    p.right_scale_inv = a.right_scales;
  }
  p.alpha = layout.left_scale_inv == nullptr ? nullptr : a.alpha;
  return p;
}

void zero_empty_groups(cudaStream_t stream, void* out, std::int64_t bytes, const std::int32_t* rows, int groups) {
  constexpr std::int64_t kVectors = 16;  // that a thread writes, unless the grid is full
  constexpr std::int64_t kMostBlocks = 1024;
  const std::int64_t count = bytes / static_cast<std::int64_t>(sizeof(uint4));
  if (count == 0 || groups == 0) return;
  const std::int64_t blocks = std::min((count + kThreads * kVectors - 1) / (kThreads * kVectors), kMostBlocks);
  const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(groups));
  zero_kernel<<<grid, kThreads, 0, stream>>>(static_cast<uint4*>(out), count, rows);
  SHARD8_CUDA_CHECK_LAUNCH("zero_empty_groups");
}

}  // namespace shard8::kernels::cuda
