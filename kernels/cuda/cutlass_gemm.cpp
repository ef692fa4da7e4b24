// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/cutlass_gemm.hpp"

#include <algorithm>
#include <limits>

#include "kernels/cuda/cutlass_kernels.hpp"
#include "kernels/cuda/library_check.hpp"

namespace shard8::kernels::cuda {
namespace {

using tensor::DType;

using Run = bool (*)(cudaStream_t, const CutlassProblem&);

constexpr std::int32_t kComputeCapability = 90, kAlignment = 16;
constexpr int kSwizzles[] = {1, 2, 4, 8};  // all that CUTLASS distinguishes

/// The kernel for a product; null if there is none.
Run kernel_of(const LtGemmKey& key) {
  const bool e4m3 = key.left.dtype == DType::e4m3, e5m2 = key.left.dtype == DType::e5m2;
  if (!(e4m3 || e5m2) || key.right.dtype != DType::e4m3 || key.left.scaling != LtScaling::vec_128) return nullptr;
  if (key.bias || key.alignment < kAlignment) return nullptr;
  if (std::max({key.rows, key.cols, key.depth}) > std::numeric_limits<int>::max()) return nullptr;
  if (key.right.scaling == LtScaling::vec_128) {
    if (key.out != DType::fp32 || key.addend) return nullptr;
    return e4m3 ? run_cutlass_vectors : run_cutlass_vectors_e5m2;
  }
  if (key.right.scaling != LtScaling::tile_128 || key.out != DType::bf16) return nullptr;
  if (key.addend) return e4m3 ? run_cutlass_addend : nullptr;
  return e4m3 ? run_cutlass_plain : run_cutlass_plain_e5m2;
}

}  // namespace

std::int32_t cutlass_version() { return cutlass_kernels_version(); }

std::vector<CutlassConfig> cutlass_configs(const LtGemmKey& key, std::int32_t compute_capability) {
  if (compute_capability != kComputeCapability || kernel_of(key) == nullptr) return {};
  std::vector<CutlassConfig> configs;
  for (const bool along_rows : {true, false}) {
    for (const std::int32_t swizzle : kSwizzles) configs.push_back({cutlass_version(), swizzle, along_rows});
  }
  return configs;
}

bool enqueue_cutlass(cudaStream_t stream, const LtGemmKey& key, const CutlassArgs& args, const CutlassConfig& config) {
  const Run run = kernel_of(key);
  if (run == nullptr || config.version != cutlass_version()) return false;
  return run(stream, {.rows = static_cast<int>(key.rows),
                      .cols = static_cast<int>(key.cols),
                      .depth = static_cast<int>(key.depth),
                      .left = args.left,
                      .right = args.right,
                      .left_scale_inv = args.left_scale_inv,
                      .right_scale_inv = args.right_scale_inv,
                      .added = args.added,
                      .out = args.out,
                      .swizzle = config.swizzle,
                      .along_rows = config.along_rows,
                      .multiprocessors = device_attribute(cudaDevAttrMultiProcessorCount)});
}

}  // namespace shard8::kernels::cuda
