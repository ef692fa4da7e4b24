// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "tensor/words.hpp"

namespace shard8::kernels::cuda {

// Sums over rows of bf16 that the threads of a warp hold in vectors of eight, combined in a fixed order.

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

// Messages between the blocks of a cluster, on devices of compute capability 9.0.

__device__ __forceinline__ unsigned shared_address(const void* of) {
  return static_cast<unsigned>(__cvta_generic_to_shared(of));
}
/// The address of the same shared variable in block `rank` of the cluster.
__device__ __forceinline__ unsigned address_in(unsigned address, int rank) {
  unsigned there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
}

/// A barrier of the cluster in two halves. With arrive_begun each block says that its Arrivals are initialised; with
/// await_begun it waits for all others. The barrier orders no other memory.
__device__ __forceinline__ void arrive_begun() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
__device__ __forceinline__ void await_begun() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

/// A barrier in shared memory that counts the bytes that other blocks send. A wait ends when the expected bytes have
/// arrived; it waits for no other stores of the senders.
struct Arrivals {
  std::uint64_t state;

  /// Initialises the barrier; call it before arrive_begun.
  __device__ __forceinline__ void begin() {
    asm volatile(
        "mbarrier.init.shared::cta.b64 [%0], 1;\nfence.mbarrier_init.release.cluster;" ::"r"(shared_address(&state))
        : "memory");
  }
  /// One thread calls this before each wait.
  __device__ __forceinline__ void expect(unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&state)), "r"(bytes)
                 : "memory");
  }
  __device__ __forceinline__ void wait(unsigned parity) {
    unsigned done = 0;
    while (done == 0) {
      asm volatile(
          "{\n.reg .pred done;\nmbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\nselp.u32 %0, 1, 0, done;\n}"
          : "=r"(done)
          : "r"(shared_address(&state)), "r"(parity)
          : "memory");
    }
  }
};
/// Writes *to = part in the shared memory of block `rank`, where `arrivals` counts the bytes.
__device__ __forceinline__ void send(const Squares* to, const Squares& part, const Arrivals* arrivals, int rank) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(
                   address_in(shared_address(to), rank)),
               "r"(__float_as_uint(part.squares)), "r"(address_in(shared_address(arrivals), rank))
               : "memory");
}
__device__ __forceinline__ void send(const Moments* to, const Moments& part, const Arrivals* arrivals, int rank) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], {%1, %2}, [%3];" ::"r"(
                   address_in(shared_address(to), rank)),
               "r"(__float_as_uint(part.sum)), "r"(__float_as_uint(part.squares)),
               "r"(address_in(shared_address(arrivals), rank))
               : "memory");
}

}  // namespace shard8::kernels::cuda
