// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/kernels.hpp"

#include <cooperative_groups.h>

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "kernels/cuda/norm_rows.cuh"
#include "tensor/cuda/device.hpp"

namespace shard8::kernels::cuda {
namespace {

using tensor::DType;

/// The forward of a norm. A cluster takes 32 rows at a time, and loads the next rows meanwhile.
template <class Outputs, bool kCentred, int kVectors, bool kSum>
__global__ void __launch_bounds__(kNormThreads, kSum ? 1 : 2) norm_kernel(const NormForward at) {
#if __CUDA_ARCH__ >= 900
  using Norm = NormRows<Outputs, kCentred, kVectors, kSum>;
  constexpr bool kCast = Outputs::kCast;
  extern __shared__ uint4 memory[];
  auto& shared = *reinterpret_cast<typename Norm::Shared*>(memory);
  const auto cluster = cooperative_groups::this_cluster();
  const auto thread = static_cast<int>(threadIdx.x), rank = static_cast<int>(cluster.block_rank());
  const auto blocks = static_cast<int>(cluster.num_blocks());
  const Norm norm{at,
                  shared,
                  reinterpret_cast<typename Norm::Next*>(&shared + 1),
                  thread % 32,
                  thread / 32,
                  rank,
                  blocks,
                  static_cast<std::int64_t>(rank) * Norm::kCols,
                  1.0f / static_cast<float>(at.hidden)};
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x / static_cast<unsigned>(blocks)) * kNormRows;
  std::int64_t first_row = static_cast<std::int64_t>(blockIdx.x / static_cast<unsigned>(blocks)) * kNormRows;
  if (thread < 2 * kNormWarps) shared.arrivals[thread / kNormWarps][thread % kNormWarps].begin();
  arrive_begun();
  norm.prefetch(first_row);
  norm.load_weight();
  float scale = 1.0f;
  if constexpr (kCast && !Outputs::kBlocks) scale = *at.scale;
  const std::int32_t before = at.amax != nullptr && thread == 0 ? *static_cast<volatile std::int32_t*>(at.amax) : 0;
  if (kCast && !Outputs::kBlocks && blockIdx.x == 0 && thread == 0) *at.scale_inv = 1.0f / scale;
  NormCounts counts;
  __syncthreads();
  await_begun();
  for (unsigned round = 0; first_row < at.rows; first_row += step, ++round) {
    const int which = static_cast<int>(round % 2);
    typename Norm::Rows rows;
    norm.load_prefetched(rows, first_row);
    norm.send_parts(rows, which);
    if (first_row + step < at.rows) norm.prefetch(first_row + step);
    std::uint32_t* const tile = shared.tile[Norm::kTiles == 2 ? which : 0];
    norm.write(rows, norm.statistics(first_row, which, round / 2 % 2), first_row, tile, scale, counts);
    if constexpr (Outputs::kTransposed) {
      __syncthreads();
      norm.write_transposed(tile, first_row);
      if (Norm::kTiles == 1) __syncthreads();
    }
  }
  if (at.amax != nullptr || at.saturated != nullptr || at.flushed != nullptr) norm.add_counts(counts, before);
#endif
}

bool on_16_bytes(std::initializer_list<const void*> pointers) {
  return std::all_of(pointers.begin(), pointers.end(),
                     [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; });
}

/// Bytes of shared memory that a block may have on the current device; 0 if it has no clusters of blocks. A thread
/// queries the device again only when the thread's device has changed.
std::size_t shared_with_clusters() {
  int device = 0;
  SHARD8_CUDA_CHECK(cudaGetDevice(&device));
  thread_local int asked = -1, major = 0, shared = 0;
  if (asked != device) {
    SHARD8_CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
    SHARD8_CUDA_CHECK(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  }
  asked = device;
  return major >= 9 ? static_cast<std::size_t>(shared) : 0;
}

/// How many vectors a thread takes, as few as possible; 0 if a cluster cannot hold a row.
int vectors_of(std::int64_t hidden) {
  for (const int vectors : {2, 4}) {
    const std::int64_t cols = static_cast<std::int64_t>(vectors) * kNormStride;
    if (hidden > 0 && hidden % cols == 0 && hidden / cols <= kNormMostBlocks) return vectors;
  }
  return 0;
}

struct Kernel {
  void (*function)(NormForward);
  std::size_t shared;  ///< bytes
  bool operator==(const Kernel&) const = default;
};
template <class Outputs, bool kCentred, int kVectors, bool kSum = false>
Kernel one_kernel(const NormForward& norm) {
  return {norm_kernel<Outputs, kCentred, kVectors, kSum>,
          NormRows<Outputs, kCentred, kVectors, kSum>::shared_bytes(norm)};
}
template <class Outputs, int kVectors>
Kernel kernel_of_vectors(const NormForward& norm) {
  if (norm.bias != nullptr) return one_kernel<Outputs, true, kVectors>(norm);
  return norm.partial_sum_count > 0 ? one_kernel<Outputs, false, kVectors, true>(norm)
                                    : one_kernel<Outputs, false, kVectors>(norm);
}
template <class Outputs>
Kernel kernel_of(const NormForward& norm) {
  return vectors_of(norm.hidden) == 2 ? kernel_of_vectors<Outputs, 2>(norm) : kernel_of_vectors<Outputs, 4>(norm);
}
template <class Q>
Kernel cast_kernel_of(const NormForward& norm) {
  if (norm.transposed != nullptr) return kernel_of<NormOutputs<Q, false, true>>(norm);
  return norm.plain != nullptr ? kernel_of<NormOutputs<Q, true, false>>(norm)
                               : kernel_of<NormOutputs<Q, false, false>>(norm);
}
Kernel any_kernel_of(const NormForward& norm) {
  if (norm.quantized != nullptr && norm.scale == nullptr) {
    return kernel_of<NormOutputs<tensor::E4M3, false, false, true>>(norm);
  }
  if (norm.quantized != nullptr) {
    return norm.format == DType::e4m3 ? cast_kernel_of<tensor::E4M3>(norm) : cast_kernel_of<tensor::E5M2>(norm);
  }
  return norm.plain != nullptr ? kernel_of<NormOutputs<void, true, false>>(norm)
                               : kernel_of<NormOutputs<void, false, false>>(norm);
}

/// How many clusters the current device runs at once. A thread queries the device once for each kernel and size, and
/// must not change its device afterwards.
int clusters_at_once(const Kernel& kernel, const cudaLaunchConfig_t& config) {
  struct Answer {
    Kernel kernel;
    unsigned blocks;
    int clusters;
  };
  thread_local std::vector<Answer> answers;
  const unsigned blocks = config.gridDim.x;
  for (const Answer& answer : answers) {
    if (answer.kernel == kernel && answer.blocks == blocks) return answer.clusters;
  }
  int clusters = 0;
  // A function may need less memory at one call than at another, so its limit is that of the device.
  SHARD8_CUDA_CHECK(cudaFuncSetAttribute(kernel.function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         static_cast<int>(shared_with_clusters())));
  SHARD8_CUDA_CHECK(cudaOccupancyMaxActiveClusters(&clusters, kernel.function, &config));
  answers.push_back({kernel, blocks, std::max(clusters, 1)});
  return answers.back().clusters;
}

}  // namespace

bool has_norm_forward(const NormForward& norm) {
  for (int k = 0; k < norm.partial_sum_count; ++k) {
    if (norm.bias != nullptr || !on_16_bytes({norm.partial_sums[k]})) return false;
  }
  return norm.rows % kNormRows == 0 && vectors_of(norm.hidden) > 0 &&
         (norm.transposed == nullptr || norm.plain == nullptr) &&
         (norm.quantized == nullptr || norm.scale != nullptr ||
          (norm.plain == nullptr && norm.transposed == nullptr && norm.amax == nullptr &&
           norm.format == DType::e4m3)) &&
         on_16_bytes({norm.x, norm.weight, norm.bias, norm.plain, norm.quantized, norm.transposed}) &&
         any_kernel_of(norm).shared <= shared_with_clusters();
}

void norm_forward(cudaStream_t stream, const NormForward& norm) {
  if (norm.rows == 0) return;
  const Kernel kernel = any_kernel_of(norm);
  const auto blocks =
      static_cast<unsigned>(norm.hidden / (static_cast<std::int64_t>(vectors_of(norm.hidden)) * kNormStride));
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = blocks;
  cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(kNormThreads);
  config.dynamicSmemBytes = kernel.shared;
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = 1;
  const std::int64_t clusters = std::min<std::int64_t>(norm.rows / kNormRows, clusters_at_once(kernel, config));
  config.gridDim.x = blocks * static_cast<unsigned>(clusters);
  SHARD8_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel.function, norm));
}

}  // namespace shard8::kernels::cuda
