// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tensor/cuda/stream.hpp"

#include "tensor/cuda/check.hpp"

namespace shard8::tensor::cuda {

Event::Event(Times times) {
  cudaEvent_t event = nullptr;
  SHARD8_CUDA_CHECK(cudaEventCreateWithFlags(&event, times == Times::yes ? cudaEventDefault : cudaEventDisableTiming));
  event_.reset(event);
}

void Event::record(cudaStream_t stream) const { SHARD8_CUDA_CHECK(cudaEventRecord(event_.get(), stream)); }

void Event::hold(cudaStream_t stream) const { SHARD8_CUDA_CHECK(cudaStreamWaitEvent(stream, event_.get(), 0)); }

bool Event::happened() const {
  const cudaError_t status = cudaEventQuery(event_.get());
  if (status == cudaErrorNotReady) return false;
  SHARD8_CUDA_CHECK(status);
  return true;
}

void Event::synchronize() const { SHARD8_CUDA_CHECK(cudaEventSynchronize(event_.get())); }

double Event::seconds_since(const Event& start) const {
  float milliseconds = 0;
  SHARD8_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, start.event_.get(), event_.get()));
  return static_cast<double>(milliseconds) * 1e-3;
}

Stream::Stream(Urgency urgency) {
  int least = 0, greatest = 0;
  SHARD8_CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  cudaStream_t stream = nullptr;
  SHARD8_CUDA_CHECK(
      cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, urgency == Urgency::high ? greatest : least));
  stream_.reset(stream);
}

}  // namespace shard8::tensor::cuda
