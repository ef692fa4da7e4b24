// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tensor/cuda/event.hpp"

#include "tensor/cuda/check.hpp"

namespace shard8::tensor::cuda {

Event::Event(Times times) {
  SHARD8_CUDA_CHECK(cudaEventCreateWithFlags(&event_, times == Times::yes ? cudaEventDefault : cudaEventDisableTiming));
}

Event::~Event() {
  if (event_ != nullptr) cudaEventDestroy(event_);
}

void Event::record(cudaStream_t stream) const { SHARD8_CUDA_CHECK(cudaEventRecord(event_, stream)); }

void Event::hold(cudaStream_t stream) const { SHARD8_CUDA_CHECK(cudaStreamWaitEvent(stream, event_, 0)); }

bool Event::happened() const {
  const cudaError_t status = cudaEventQuery(event_);
  if (status == cudaErrorNotReady) return false;
  SHARD8_CUDA_CHECK(status);
  return true;
}

void Event::synchronize() const { SHARD8_CUDA_CHECK(cudaEventSynchronize(event_)); }

double Event::seconds_since(const Event& start) const {
  float milliseconds = 0;
  SHARD8_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, start.event_, event_));
  return static_cast<double>(milliseconds) * 1e-3;
}

}  // namespace shard8::tensor::cuda
