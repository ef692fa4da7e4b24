// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/row_parts.cuh"

/// Messages between the blocks of a cluster, on devices of compute capability 9.0.
namespace shard8::kernels::cuda {

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
