// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <cstdio>

#include "kernels/cuda/kernels.hpp"
#include "tensor/cuda/device.hpp"

namespace shard8::kernels::cuda {

namespace {

__device__ std::uint64_t device_nanoseconds() {
  std::uint64_t now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

__global__ void wait_kernel(std::uint64_t nanoseconds, const std::uint64_t* memory, std::size_t count, double rate) {
  const std::uint64_t begin = device_nanoseconds();
  if (memory == nullptr) {
    while (device_nanoseconds() - begin < nanoseconds) __nanosleep(100);
    return;
  }
  const double own = rate / static_cast<double>(gridDim.x);  // bytes a nanosecond of this block
  std::size_t next = blockIdx.x * (count / gridDim.x) + threadIdx.x;
  std::uint64_t sum = 0;
  double read = 0;
  for (std::uint64_t now = 0; now < nanoseconds; now = device_nanoseconds() - begin) {
    if (read > static_cast<double>(now) * own) {
      __nanosleep(100);
      continue;
    }
    for (int k = 0; k < 8; ++k) {
      sum += __ldcg(memory + next % count);  // past the first cache
      next += blockDim.x;
    }
    read += 8.0 * static_cast<double>(blockDim.x) * sizeof(std::uint64_t);
  }
  // Never true, which the compiler does not know: the reads stay.
  if (sum == 0xfedcba9876543210ULL && nanoseconds == 1) printf("%llu", static_cast<unsigned long long>(sum));
}

}  // namespace

void launch_wait(cudaStream_t stream, std::uint64_t nanoseconds, int blocks, const std::uint64_t* memory,
                 std::size_t bytes, double bytes_per_ns) {
  const int threads = memory == nullptr ? 1 : 1024;
  wait_kernel<<<blocks, threads, 0, stream>>>(nanoseconds, memory, bytes / sizeof(std::uint64_t), bytes_per_ns);
  SHARD8_CUDA_CHECK_LAUNCH("wait_kernel");
}

}  // namespace shard8::kernels::cuda
