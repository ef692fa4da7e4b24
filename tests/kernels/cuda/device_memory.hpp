// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "tensor/cuda/device.hpp"

namespace shard8::test {

class DeviceMemory {
 public:
  explicit DeviceMemory(std::size_t bytes) { SHARD8_CUDA_CHECK(cudaMalloc(&data_, std::max<std::size_t>(bytes, 256))); }
  ~DeviceMemory() { static_cast<void>(cudaFree(data_)); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  char* data() const { return static_cast<char*>(data_); }

  template <class T>
  void upload(cudaStream_t stream, const std::vector<T>& from) const {
    if (from.empty()) return;
    SHARD8_CUDA_CHECK(cudaMemcpyAsync(data_, from.data(), sizeof(T) * from.size(), cudaMemcpyHostToDevice, stream));
    SHARD8_CUDA_CHECK(cudaStreamSynchronize(stream));
  }
  template <class T>
  std::vector<T> download(cudaStream_t stream, std::size_t count) const {
    std::vector<T> to(count);
    if (count == 0) return to;
    SHARD8_CUDA_CHECK(cudaMemcpyAsync(to.data(), data_, sizeof(T) * count, cudaMemcpyDeviceToHost, stream));
    SHARD8_CUDA_CHECK(cudaStreamSynchronize(stream));
    return to;
  }

 private:
  void* data_ = nullptr;
};

}  // namespace shard8::test
