// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tensor/cuda/stream.hpp"

#include "tensor/cuda/check.hpp"

namespace shard8::tensor::cuda {

Stream::Stream(Urgency urgency) {
  int least = 0, greatest = 0;
  SHARD8_CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  SHARD8_CUDA_CHECK(
      cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, urgency == Urgency::high ? greatest : least));
}

Stream::~Stream() {
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

}  // namespace shard8::tensor::cuda
