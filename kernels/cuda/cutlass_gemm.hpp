// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "kernels/cuda/lt_key.hpp"

/// FP8 products with block scales by kernels of CUTLASS, in addition to those of cuBLASLt. Operands, scales and sums
/// are those of LtGemm: sums of 128 products are scaled and added in fp32, in one order, so equal operands give equal
/// bits.
namespace shard8::kernels::cuda {

/// The version of the CUTLASS headers that this build was compiled with, as CUTLASS numbers it: 450 is 4.5.0. 0 in a
/// build without CUTLASS.
std::int32_t cutlass_version();

/// The ways in which CUTLASS can compute the product; all give the same bits. Empty if no kernel computes the product:
/// in a build without CUTLASS, on a device of another compute capability than 9.0 (`compute_capability`, 90 for 9.0),
/// or for another form. Kernels exist for a right factor in e4m3 and
///
///   left vec_128, right tile_128, bf16 output         left e4m3, with or without an addend, or e5m2 without one
///   left and right vec_128, fp32 output               left e4m3 or e5m2, with or without accumulation
///
/// without a bias, and for addresses that are multiples of 16 bytes.
std::vector<CutlassConfig> cutlass_configs(const LtGemmKey& key, std::int32_t compute_capability);

/// The device memory of one product, laid out as LtGemmArgs says.
struct CutlassArgs {
  void* out = nullptr;
  const void* left = nullptr;
  const void* right = nullptr;
  const float* left_scale_inv = nullptr;
  const float* right_scale_inv = nullptr;
  const void* added = nullptr;  ///< of the output's dtype and shape, may be `out`; null: nothing is added
};

/// Enqueues the product on the current device; allocates nothing. `config` must be one of cutlass_configs(). Returns
/// false, and enqueues nothing, if CUTLASS or the device refuses the product, or if `config` is for another version of
/// CUTLASS.
[[nodiscard]] bool enqueue_cutlass(cudaStream_t stream, const LtGemmKey& key, const CutlassArgs& args,
                                   const CutlassConfig& config);

}  // namespace shard8::kernels::cuda
