// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/waiter.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "kernels/cuda/waiting.hpp"
#include "tensor/cuda/check.hpp"
#include "tensor/cuda/device.hpp"
#include "tensor/cuda/stream.hpp"

namespace shard8::kernels {

namespace {

constexpr std::size_t kMemory = std::size_t{256} << 20;  ///< chosen: several times the second cache
/// Bytes a second that one block of 1024 threads reads. Chosen: 132 such blocks read 3 TB/s on an H100, and this is two
/// thirds of one block's share.
constexpr double kBlockBandwidth = 15e9;

}  // namespace

struct Waiter::Parts {
  double bandwidth = 0;
  double overhead_s = 0;  ///< from one kernel's end to the next one's begin
  int blocks = 1;
  std::uint64_t* memory = nullptr;

  void launch(cudaStream_t stream, double seconds) const {
    cuda::launch_wait(stream, static_cast<std::uint64_t>(std::llround(seconds * 1e9)), blocks, memory,
                      memory == nullptr ? 0 : kMemory, bandwidth / 1e9);
  }
};

Waiter::Waiter(const tensor::Exec& exec, double read_bandwidth) : parts_(std::make_unique<Parts>()) {
  const cudaStream_t stream = tensor::cuda::stream_of(exec);
  if (read_bandwidth > 0) {
    const int most = tensor::cuda::describe_device(tensor::cuda::current_device()).multiprocessors;
    parts_->bandwidth = read_bandwidth;
    parts_->blocks = std::clamp(static_cast<int>(std::ceil(read_bandwidth / kBlockBandwidth)), 1, most);
    SHARD8_CUDA_CHECK(cudaMalloc(reinterpret_cast<void**>(&parts_->memory), kMemory));
    SHARD8_CUDA_CHECK(cudaMemsetAsync(parts_->memory, 0, kMemory, stream));
  }
  constexpr int kCalls = 200;
  constexpr double kEach_s = 20e-6;
  const tensor::cuda::Event begin(tensor::cuda::Event::Times::yes), end(tensor::cuda::Event::Times::yes);
  for (int round = 0; round < 2; ++round) {  // the first one loads the kernel
    begin.record(stream);
    for (int k = 0; k < kCalls; ++k) parts_->launch(stream, kEach_s);
    end.record(stream);
    end.synchronize();
  }
  parts_->overhead_s = std::max(0.0, end.seconds_since(begin) / kCalls - kEach_s);
}

Waiter::~Waiter() { cudaFree(parts_->memory); }

void Waiter::wait(const tensor::Exec& exec, double seconds) {
  if (seconds <= 0) return;
  parts_->launch(tensor::cuda::stream_of(exec), std::max(0.0, seconds - parts_->overhead_s));
}

std::size_t Waiter::memory() const { return parts_->memory == nullptr ? 0 : kMemory; }

std::uint64_t Waiter::bytes_read() const { return 0; }

}  // namespace shard8::kernels
