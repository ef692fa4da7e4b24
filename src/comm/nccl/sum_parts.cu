// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl/sum_parts.hpp"

#include <cuda_bf16.h>

#include <cstdint>

#include "tensor/cuda/check.hpp"

namespace shard8::comm::nccl {
namespace {

constexpr int kThreads = 512;
constexpr int kVectors = 2;  ///< 16-byte loads of each part that a thread has under way

template <class T>
struct Vector {
  static constexpr int kN = 16 / static_cast<int>(sizeof(T));
  T at[kN];
};

template <class T>
__device__ Vector<T> load(const std::byte* from, std::int64_t i) {
  const uint4 raw = __ldcs(reinterpret_cast<const uint4*>(from) + i);  // read once: not for the caches
  Vector<T> v;
  memcpy(&v, &raw, sizeof(v));
  return v;
}

/// Of whole vectors. kParts of them, or parts.count where it is 0.
template <class T, int kParts>
__global__ void __launch_bounds__(kThreads) sum_vectors(T* out, Parts parts, std::int64_t vectors) {
  const int n = kParts > 0 ? kParts : parts.count;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kThreads * kVectors + threadIdx.x;
  float sum[kVectors][Vector<T>::kN] = {};
#pragma unroll
  for (int r = 0; r < n; ++r) {
#pragma unroll
    for (int u = 0; u < kVectors; ++u) {
      const std::int64_t i = first + u * kThreads;
      if (i >= vectors) continue;
      const Vector<T> v = load<T>(parts.data[r], i);
#pragma unroll
      for (int j = 0; j < Vector<T>::kN; ++j) {
        const auto x = static_cast<float>(v.at[j]);
        sum[u][j] = r == 0 ? x : sum[u][j] + x;
      }
    }
  }
#pragma unroll
  for (int u = 0; u < kVectors; ++u) {
    const std::int64_t i = first + u * kThreads;
    if (i >= vectors) continue;
    Vector<T> v;
#pragma unroll
    for (int j = 0; j < Vector<T>::kN; ++j) v.at[j] = static_cast<T>(sum[u][j]);
    uint4 raw;
    memcpy(&raw, &v, sizeof(v));
    reinterpret_cast<uint4*>(out)[i] = raw;
  }
}

/// Of the elements from `first` on.
template <class T>
__global__ void __launch_bounds__(kThreads) sum_elements(T* out, Parts parts, std::int64_t first, std::int64_t count) {
  const std::int64_t i = first + static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= count) return;
  float total = static_cast<float>(reinterpret_cast<const T*>(parts.data[0])[i]);
  for (int r = 1; r < parts.count; ++r) total += static_cast<float>(reinterpret_cast<const T*>(parts.data[r])[i]);
  out[i] = static_cast<T>(total);
}

unsigned blocks_of(std::int64_t work, std::int64_t of_block) {
  return static_cast<unsigned>((work + of_block - 1) / of_block);
}

template <class T>
void sum(cudaStream_t stream, T* out, const Parts& parts, std::int64_t count) {
  auto all = reinterpret_cast<std::uintptr_t>(out);
  for (int r = 0; r < parts.count; ++r) all |= reinterpret_cast<std::uintptr_t>(parts.data[r]);
  const std::int64_t vectors = all % 16 == 0 ? count / Vector<T>::kN : 0;
  if (vectors > 0) {
    const auto kernel = parts.count == 2   ? sum_vectors<T, 2>
                        : parts.count == 3 ? sum_vectors<T, 3>
                        : parts.count == 4 ? sum_vectors<T, 4>
                        : parts.count == 5 ? sum_vectors<T, 5>
                        : parts.count == 8 ? sum_vectors<T, 8>
                                           : sum_vectors<T, 0>;
    kernel<<<blocks_of(vectors, kThreads * kVectors), kThreads, 0, stream>>>(out, parts, vectors);
    SHARD8_CUDA_CHECK_LAUNCH("sum_parts");
  }
  const std::int64_t first = vectors * Vector<T>::kN;
  if (first == count) return;
  sum_elements<<<blocks_of(count - first, kThreads), kThreads, 0, stream>>>(out, parts, first, count);
  SHARD8_CUDA_CHECK_LAUNCH("sum_parts");
}

}  // namespace

void sum_parts(cudaStream_t stream, void* out, tensor::DType dtype, std::int64_t count, const Parts& parts) {
  if (count == 0) return;
  if (dtype == tensor::DType::bf16) {
    sum(stream, static_cast<__nv_bfloat16*>(out), parts, count);
  } else {
    sum(stream, static_cast<float*>(out), parts, count);
  }
}

}  // namespace shard8::comm::nccl
