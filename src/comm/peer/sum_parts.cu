// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/peer/sum_parts.hpp"

#include <cuda_bf16.h>

#include <cstdint>

#include "tensor/cuda/check.hpp"

namespace shard8::comm::peer {
namespace {

constexpr int kThreads = 512;
constexpr int kVectors = 2;  ///< 16-byte loads of each part that a thread has under way

template <class T, SumOrder kOrder, int kParts>
__global__ void __launch_bounds__(kThreads) sum_all_vectors(T* out, Parts parts, std::int64_t vectors) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kThreads * kVectors + threadIdx.x;
  sum_vectors<T, kParts, kVectors, kOrder>(out, parts, 0, first, kThreads, vectors);
}

/// Of the elements from `first` on.
template <class T, SumOrder kOrder>
__global__ void __launch_bounds__(kThreads) sum_elements(T* out, Parts parts, std::int64_t first, std::int64_t count) {
  const std::int64_t i = first + static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < count) sum_element<T, kOrder>(out, parts, i);
}

unsigned blocks_of(std::int64_t work, std::int64_t of_block) {
  return static_cast<unsigned>((work + of_block - 1) / of_block);
}

template <SumOrder kOrder, class T>
void sum_in(cudaStream_t stream, T* out, const Parts& parts, std::int64_t count) {
  const std::int64_t vectors = whole_vectors(out, parts, count);
  if (vectors > 0) {
    const int own = kOrder == SumOrder::tree && parts.has_addend ? 0 : parts.count;
    const auto kernel = for_part_count(own, [](auto n) { return &sum_all_vectors<T, kOrder, decltype(n)::value>; });
    kernel<<<blocks_of(vectors, kThreads * kVectors), kThreads, 0, stream>>>(out, parts, vectors);
    SHARD8_CUDA_CHECK_LAUNCH("sum_parts");
  }
  const std::int64_t first = vectors * Vector<T>::kN;
  if (first == count) return;
  sum_elements<T, kOrder><<<blocks_of(count - first, kThreads), kThreads, 0, stream>>>(out, parts, first, count);
  SHARD8_CUDA_CHECK_LAUNCH("sum_parts");
}

template <class T>
void sum(cudaStream_t stream, T* out, const Parts& parts, std::int64_t count) {
  if (parts.order == SumOrder::tree)
    sum_in<SumOrder::tree>(stream, out, parts, count);
  else
    sum_in<SumOrder::ranks>(stream, out, parts, count);
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

}  // namespace shard8::comm::peer
