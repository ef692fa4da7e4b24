// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "comm/peer/peer_block.hpp"
#include "tensor/cuda/check.hpp"
#include "tensor/cuda/stream.hpp"
#include "tests/comm/buffer.hpp"

/// One process plays all ranks of a group on one device: a stream and a block of memory for each rank.
namespace shard8::comm::tests {

using peer::PeerAddresses;
using peer::PeerBlock;
using tensor::cuda::Stream;

/// Cleared device memory.
class Memory {
 public:
  explicit Memory(std::size_t bytes) {
    void* memory = nullptr;
    SHARD8_CUDA_CHECK(cudaMalloc(&memory, bytes));
    data_ = static_cast<std::byte*>(memory);
    SHARD8_CUDA_CHECK(cudaMemset(data_, 0, bytes));
    SHARD8_CUDA_CHECK(cudaDeviceSynchronize());
  }
  ~Memory() { cudaFree(data_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
};

/// The ranks of a group, each with `bytes` bytes that all others address.
class Ranks {
 public:
  Ranks(int size, std::size_t bytes) {
    const std::size_t all = PeerBlock::memory_bytes(bytes, size);
    std::vector<std::byte*> base;
    for (int r = 0; r < size; ++r) {
      memory_.push_back(std::make_unique<Memory>(all));
      base.push_back(memory_.back()->data());
    }
    for (int r = 0; r < size; ++r) {
      streams_.push_back(std::make_unique<Stream>());
      blocks_.push_back(
          std::make_unique<PeerBlock>(std::make_shared<PeerAddresses>(r, base, all), bytes, streams_.back()->get()));
    }
  }
  int size() const { return static_cast<int>(blocks_.size()); }
  PeerBlock& operator[](int rank) { return *blocks_[static_cast<std::size_t>(rank)]; }
  cudaStream_t stream(int rank) const { return streams_[static_cast<std::size_t>(rank)]->get(); }

 private:
  std::vector<std::unique_ptr<Memory>> memory_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<std::unique_ptr<PeerBlock>> blocks_;
};

inline std::vector<std::byte> download(const std::byte* from, std::size_t bytes) {
  SHARD8_CUDA_CHECK(cudaDeviceSynchronize());
  std::vector<std::byte> to(bytes);
  SHARD8_CUDA_CHECK(cudaMemcpy(to.data(), from, bytes, cudaMemcpyDeviceToHost));
  return to;
}

/// fp32 values of each rank on the device.
class Parts {
 public:
  Parts(int size, std::int64_t count) : count_(count) {
    for (int r = 0; r < size; ++r) {
      Buffer buffer(tensor::Shape{count}, tensor::DType::fp32);
      buffer.fill(r);
      memory_.push_back(std::make_unique<Memory>(bytes()));
      SHARD8_CUDA_CHECK(cudaMemcpy(memory_.back()->data(), buffer.bytes().data(), bytes(), cudaMemcpyHostToDevice));
      host_.insert(host_.end(), buffer.bytes().begin(), buffer.bytes().end());
    }
  }
  std::size_t bytes() const { return static_cast<std::size_t>(count_) * sizeof(float); }
  const std::byte* of(int rank) const { return memory_[static_cast<std::size_t>(rank)]->data(); }
  /// All ranks' values in rank order.
  const std::vector<std::byte>& all() const { return host_; }

 private:
  std::int64_t count_;
  std::vector<std::unique_ptr<Memory>> memory_;
  std::vector<std::byte> host_;
};

}  // namespace shard8::comm::tests
