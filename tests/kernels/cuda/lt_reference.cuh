// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include <cstdint>
#include <vector>

#include "tests/kernels/cuda/numbers.hpp"

/// Factors of products in the device's memory. The host can compute any of their elements without a copy.
namespace shard8::test {

using kernels::cuda::LtFactor;
using kernels::cuda::LtScaling;

/// The factor by which numbers are multiplied before they are rounded, to use the range of the format.
template <class T>
inline constexpr float kStretch = 1.0f;
template <>
inline constexpr float kStretch<__nv_fp8_e4m3> = 64.0f;
template <>
inline constexpr float kStretch<__nv_fp8_e5m2> = 1024.0f;

template <class T>
__host__ __device__ inline T element(std::uint64_t seed, std::uint64_t index, bool positive) {
  return T(number(seed, index, positive) * kStretch<T>);
}

/// Element i of a factor (outer, depth), stored as it is or transposed.
template <class T>
__global__ void fill(T* out, std::int64_t outer, std::int64_t depth, bool depth_contiguous, std::uint64_t seed,
                     bool positive) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t s = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; s < outer * depth;
       s += step) {
    const std::int64_t i = depth_contiguous ? s : s % outer * depth + s / outer;
    out[s] = element<T>(seed, static_cast<std::uint64_t>(i), positive);
  }
}

template <class T>
__global__ void fill_constant(T* out, std::int64_t count, float value) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t s = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; s < count; s += step) {
    out[s] = T(value);
  }
}

constexpr int kMostSuspects = 64;

/// What one pass over a whole output finds.
struct Scan {
  unsigned long long suspects = 0;  ///< elements that are not finite or still the sentinel
  unsigned long long checksum = 0;
  long long where[kMostSuspects] = {};
};

template <class T>
__global__ void scan(Scan* result, const T* out, std::int64_t count, float sentinel) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  unsigned long long sum = 0;
  for (std::int64_t s = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; s < count; s += step) {
    const float value = static_cast<float>(out[s]);
    sum += mix(static_cast<std::uint64_t>(s) ^ (static_cast<std::uint64_t>(__float_as_uint(value)) << 32));
    if (!isfinite(value) || value == sentinel) {
      const unsigned long long n = atomicAdd(&result->suspects, 1ull);
      if (n < kMostSuspects) result->where[n] = s;
    }
  }
  atomicAdd(&result->checksum, sum);
}

/// The inverse scales of a factor, laid out as cuBLASLt reads them.
inline std::vector<float> scales_of(const LtFactor& factor, std::int64_t outer, std::int64_t depth, std::uint64_t seed,
                                    float stretch) {
  std::vector<float> scales(static_cast<std::size_t>(kernels::cuda::scale_count(factor.scaling, outer, depth)));
  const std::int64_t depth_blocks = (depth + 127) / 128;
  if (factor.scaling == LtScaling::tensor) scales[0] = scale_inv(seed, 0, 0, stretch);
  if (factor.scaling == LtScaling::vec_128) {
    for (std::int64_t b = 0; b < depth_blocks; ++b) {
      for (std::int64_t i = 0; i < outer; ++i) {
        scales[static_cast<std::size_t>(b * outer + i)] = scale_inv(seed, i, b, stretch);
      }
    }
  }
  if (factor.scaling == LtScaling::tile_128) {
    const std::int64_t padded = (depth_blocks + 3) / 4 * 4;
    for (std::int64_t i = 0; i < (outer + 127) / 128; ++i) {
      for (std::int64_t b = 0; b < depth_blocks; ++b) {
        scales[static_cast<std::size_t>(i * padded + b)] = scale_inv(seed, i, b, stretch);
      }
    }
  }
  return scales;
}

/// Row i of a factor (outer, depth), with its scales applied.
template <class T>
std::vector<double> row_of(LtScaling scaling, std::int64_t i, std::int64_t depth, std::uint64_t seed, bool positive) {
  std::vector<double> row(static_cast<std::size_t>(depth));
  for (std::int64_t k = 0; k < depth; ++k) {
    double value = static_cast<float>(element<T>(seed, static_cast<std::uint64_t>(i * depth + k), positive));
    if (scaling == LtScaling::tensor) value *= scale_inv(seed, 0, 0, kStretch<T>);
    if (scaling == LtScaling::vec_128) value *= scale_inv(seed, i, k / 128, kStretch<T>);
    if (scaling == LtScaling::tile_128) value *= scale_inv(seed, i / 128, k / 128, kStretch<T>);
    row[static_cast<std::size_t>(k)] = value;
  }
  return row;
}

}  // namespace shard8::test
