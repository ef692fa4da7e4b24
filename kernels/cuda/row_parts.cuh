// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include "tensor/words.hpp"

/// Sums over rows of bf16 that the threads of a warp hold in vectors of eight, combined in a fixed order.
namespace shard8::kernels::cuda {

using tensor::high_of;
using tensor::low_of;

__device__ __forceinline__ std::uint32_t word_of(const uint4& v, int k) {
  return k == 0 ? v.x : k == 1 ? v.y : k == 2 ? v.z : v.w;
}

/// Σx² of some elements of a row, for RMSNorm.
struct Squares {
  float squares;

  template <int kVectors>
  __device__ __forceinline__ static Squares of(const uint4 (&v)[kVectors]) {
    float even = 0, odd = 0;
#pragma unroll
    for (const uint4& vector : v) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const float a = low_of(word_of(vector, k)), b = high_of(word_of(vector, k));
        even = fmaf(a, a, even);
        odd = fmaf(b, b, odd);
      }
    }
    return {even + odd};
  }
  __device__ __forceinline__ Squares across(int step) const { return {__shfl_xor_sync(0xffffffffu, squares, step)}; }
  /// The part of the elements of both parts. Each part has `count` elements.
  __device__ __forceinline__ Squares operator()(const Squares& other, float) const { return {squares + other.squares}; }
};

/// Σx and Σ(x − mean)² of some elements of a row, with the mean of these elements, for LayerNorm. Two parts are
/// combined by the formula of Chan, Golub & LeVeque 1983.
struct Moments {
  float sum, squares;

  template <int kVectors>
  __device__ __forceinline__ static Moments of(const uint4 (&v)[kVectors]) {
    float sum = 0;
#pragma unroll
    for (const uint4& vector : v) {
      float of_vector = 0;
#pragma unroll
      for (int k = 0; k < 4; ++k) of_vector += low_of(word_of(vector, k)) + high_of(word_of(vector, k));
      sum += of_vector;
    }
    const float mean = sum * (1.0f / (8 * kVectors));
    float even = 0, odd = 0;
#pragma unroll
    for (const uint4& vector : v) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const float a = low_of(word_of(vector, k)) - mean, b = high_of(word_of(vector, k)) - mean;
        even = fmaf(a, a, even);
        odd = fmaf(b, b, odd);
      }
    }
    return {sum, even + odd};
  }
  __device__ __forceinline__ Moments across(int step) const {
    return {__shfl_xor_sync(0xffffffffu, sum, step), __shfl_xor_sync(0xffffffffu, squares, step)};
  }
  __device__ __forceinline__ Moments operator()(const Moments& other, float count) const {
    const float apart = sum - other.sum;
    return {sum + other.sum, fmaf(apart * (0.5f / count), apart, squares + other.squares)};
  }
};

/// Each thread of a warp has parts of four rows, of kCount elements each. Combines them over the warp and returns the
/// combined part of row lane / 8.
template <int kCount, class Part>
__device__ __forceinline__ Part of_own_row(Part (&row)[4], int lane) {
  const auto one_of = [lane](const Part& a, const Part& b, int step, float count) {
    const bool second = (lane & step) != 0;
    const Part keep = second ? b : a, give = second ? a : b;
    return keep(give.across(step), count);
  };
  const Part upper = one_of(row[0], row[2], 16, kCount), lower = one_of(row[1], row[3], 16, kCount);
  Part part = one_of(upper, lower, 8, 2 * kCount);
#pragma unroll
  for (int step = 4, count = 4; step > 0; step /= 2, count *= 2) {
    part = part(part.across(step), static_cast<float>(count * kCount));
  }
  return part;
}

__device__ __forceinline__ float sum_of_eight(float value) {
#pragma unroll
  for (int step = 4; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  return value;
}

}  // namespace shard8::kernels::cuda
