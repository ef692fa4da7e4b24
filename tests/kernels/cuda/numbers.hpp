// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cuda/lt_key.hpp"
#include "tensor/float8.hpp"

/// Numbers that host and device compute alike, from a seed and a logical index, whatever the layout is; and bounds for
/// the error of a product of them.
namespace shard8::test {

SHARD8_FUNCTION std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

/// Nearly normal numbers with standard deviation 0.58, in [-2, 2]. They are exact in fp32, hence the same on the host
/// and the device.
SHARD8_FUNCTION float number(std::uint64_t seed, std::uint64_t index, bool positive) {
  const std::uint64_t h = mix(seed ^ mix(index));
  const std::uint64_t sum = (h & 0xffff) + ((h >> 16) & 0xffff) + ((h >> 32) & 0xffff) + (h >> 48);
  const float x = static_cast<float>(static_cast<std::int64_t>(sum) - 131070) * 0x1p-16f;
  return positive && x < 0 ? -x : x;
}

/// The factor by which numbers are multiplied before they are rounded, to use the range of the format.
inline float stretch_of(tensor::DType dtype) {
  return dtype == tensor::DType::e4m3 ? 64.0f : dtype == tensor::DType::e5m2 ? 1024.0f : 1.0f;
}

/// An inverse scale: one of 16 values from 1/stretch to 2.875/stretch, chosen by a hash of the block's place, so a
/// scale that is read from the wrong place shows.
inline float scale_inv(std::uint64_t seed, std::int64_t outer_block, std::int64_t depth_block, float stretch) {
  const std::uint64_t h =
      mix(seed ^ mix(static_cast<std::uint64_t>(outer_block) * 65536 + static_cast<std::uint64_t>(depth_block)));
  return (1.0f + static_cast<float>(h % 16) / 8.0f) / stretch;
}

/// How a product is summed, on which its error depends.
enum Sum { kPlain, kSplit, kFast, kBlock, kSums };
inline const char* const kSumNames[kSums] = {"bf16/fp32", "FP8 split", "FP8 fast", "FP8 block"};

inline Sum sum_of(const kernels::cuda::LtGemmKey& key) {
  using kernels::cuda::LtScaling;
  if (key.left.scaling == LtScaling::none) return kPlain;
  if (key.left.scaling != LtScaling::tensor) return kBlock;
  return key.fast_accumulation ? kFast : kSplit;
}

/// ε of the bound |error| ≤ 2⁻⁸·|ref| + ε·Σ|a||b| for a sum of K products. fp32 and bf16: K·2⁻²⁴.
/// Hopper's tensor cores add FP8 products with about 13 bits below the largest, cut off. The worst that
/// `lt_gemm_check small` saw on an H200 with cuBLASLt 13.1.0 (2026-11-20; K up to 28672), and what is
/// allowed, for random and for positive numbers:
///
///   fp32, bf16                                   2⁻²²·⁰  2⁻¹⁶·³    K·2⁻²⁴
///   FP8, sums that stay (fast)                   2⁻¹²·¹  2⁻²·⁸     2⁻¹¹  2⁻⁹ + K·2⁻¹⁵
///   FP8, sums of 128 moved to fp32 (split)       2⁻¹³·⁵  2⁻¹⁰·⁴    2⁻¹²  2⁻⁹, + K·2⁻²⁴
///   FP8, the same, scaled by blocks (block)      2⁻¹⁴·³  2⁻¹⁰·⁴    2⁻¹²  2⁻⁹, + K·2⁻²⁴
///
/// Cutting off makes a sum of positive products too small by a share that grows with K.
inline double allowed_eps(Sum sum, std::int64_t k, bool positive) {
  const auto depth = static_cast<double>(k);
  switch (sum) {
    case kPlain:
      return depth * 0x1p-24;
    case kFast:
      return positive ? 0x1p-9 + depth * 0x1p-15 : 0x1p-11;
    default:
      return (positive ? 0x1p-9 : 0x1p-12) + depth * 0x1p-24;
  }
}

}  // namespace shard8::test
