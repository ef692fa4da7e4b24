// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/train/default_stream.hpp"

#include <cuda.h>

#include <atomic>

#include "base/error.hpp"
#include "tensor/cuda/device.hpp"

namespace shard8::test {

DefaultStreamTrap::DefaultStreamTrap() {
  SHARD8_CUDA_CHECK(cudaStreamCreate(&stream_));
  SHARD8_CUDA_CHECK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed));
}

DefaultStreamTrap::~DefaultStreamTrap() {
  sprung();
  cudaStreamDestroy(stream_);
}

bool DefaultStreamTrap::sprung() {
  if (!capturing_) return false;
  capturing_ = false;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  SHARD8_CUDA_CHECK(cudaStreamIsCapturing(stream_, &status));
  cudaGraph_t graph = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(stream_, &graph);
  if (graph != nullptr) cudaGraphDestroy(graph);
  if (ended != cudaSuccess) cudaGetLastError();  // clears the error, which the return value has reported
  return ended != cudaSuccess || status != cudaStreamCaptureStatusActive;
}

HeldDefaultStream::HeldDefaultStream(std::chrono::milliseconds limit) {
  void* memory = nullptr;
  SHARD8_CUDA_CHECK(cudaHostAlloc(&memory, sizeof(std::uint32_t), cudaHostAllocMapped));
  word_ = static_cast<std::uint32_t*>(memory);
  *word_ = 0;
  const CUresult status =
      cuStreamWaitValue32(CU_STREAM_LEGACY, reinterpret_cast<CUdeviceptr>(word_), 1, CU_STREAM_WAIT_VALUE_EQ);
  if (status != CUDA_SUCCESS)
    base::fail(base::ExitCode::failed, "cuStreamWaitValue32 on the default stream gave {}", static_cast<int>(status));
  guard_ = std::thread([this, limit] {
    std::unique_lock lock(mutex_);
    const bool in_time = changed_.wait_for(lock, limit, [this] { return released_; });
    lock.unlock();
    if (!in_time) release(true);
  });
}

HeldDefaultStream::~HeldDefaultStream() {
  release(false);
  guard_.join();
  cudaStreamSynchronize(cudaStreamLegacy);
  cudaFreeHost(word_);
}

bool HeldDefaultStream::expired() const {
  const std::lock_guard lock(mutex_);
  return late_;
}

void HeldDefaultStream::release(bool late) {
  {
    const std::lock_guard lock(mutex_);
    if (released_) return;
    released_ = true;
    late_ = late;
    std::atomic_ref<std::uint32_t>(*word_).store(1);
  }
  changed_.notify_all();
}

}  // namespace shard8::test
