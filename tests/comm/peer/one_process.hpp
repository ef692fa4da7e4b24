// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "comm/mpi/all_reduce.hpp"
#include "comm/peer/peer_block.hpp"
#include "comm/peer/push_sums.hpp"
#include "comm/peer/sum_parts.hpp"
#include "tensor/cuda/device.hpp"
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

/// The ranks of a group that reduce-scatter wholes of kRows rows of fp32 a rank.
struct Scatters {
  static constexpr std::int64_t kRows = 10007;

  explicit Scatters(int size, SumOrder of_sums = SumOrder::ranks) : order(of_sums), wholes(size, kRows * size) {
    const std::size_t bytes = Communicator::reduce_memory_bytes(kRows * sizeof(float), size);
    const std::size_t all = PeerBlock::memory_bytes(bytes, size);
    std::vector<std::byte*> base;
    for (int r = 0; r < size; ++r) {
      base.push_back(memory.emplace_back(std::make_unique<Memory>(all))->data());
      out.push_back(std::make_unique<Memory>(kRows * sizeof(float)));
    }
    for (int r = 0; r < size; ++r) {
      streams.push_back(std::make_unique<Stream>());
      sums.push_back(std::make_unique<peer::PushSums>(std::make_shared<PeerAddresses>(r, base, all), bytes,
                                                      streams.back()->get(), order));
      items.push_back({{out[static_cast<std::size_t>(r)]->data(), {kRows}, tensor::DType::fp32},
                       {const_cast<std::byte*>(wholes.of(r)), {kRows * size}, tensor::DType::fp32}});
    }
  }
  /// The sum of rank r's rows, as hosts add them.
  Buffer sum_of(int r) const {
    Buffer sum(tensor::Shape{kRows}, tensor::DType::fp32);
    std::vector<const std::byte*> sources;
    for (std::size_t from = 0; from < sums.size(); ++from)
      sources.push_back(wholes.all().data() + from * wholes.bytes() +
                        static_cast<std::size_t>(r * kRows) * sizeof(float));
    sum_in_order(sum.bytes().data(), sources, kRows, tensor::DType::fp32, order);
    return sum;
  }

  /// CUDA loads a kernel at its first launch, and must not do so while a stream waits. There is a kernel for each
  /// number of parts: with and without an addend.
  void load_kernels() {
    peer::Parts parts;
    parts.order = order;
    for (int r = 0; r < static_cast<int>(sums.size()); ++r) parts.add(wholes.of(r));
    for (int addend = 0; addend < 2; ++addend) {
      peer::sum_parts(streams[0]->get(), out[0]->data(), tensor::DType::fp32, kRows, parts);
      parts.add_addend(wholes.of(0));
    }
    SHARD8_CUDA_CHECK(cudaDeviceSynchronize());
  }

  SumOrder order;
  Parts wholes;
  std::vector<std::unique_ptr<Memory>> memory, out;
  std::vector<std::unique_ptr<Stream>> streams;
  std::vector<std::unique_ptr<peer::PushSums>> sums;
  std::vector<Communicator::ReduceScatterItem> items;
};

}  // namespace shard8::comm::tests

/// What tests of races of ranks in one process need: other bytes than were there, and delays at random places.
namespace shard8::comm::tests {

inline void copy(cudaStream_t stream, std::byte* to, const std::byte* from, std::size_t bytes) {
  SHARD8_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream));
}
inline void poison(cudaStream_t stream, std::byte* memory, std::size_t bytes) {
  SHARD8_CUDA_CHECK(cudaMemsetAsync(memory, 0xff, bytes, stream));
}

/// What happens at random: the same in every run.
class Chance {
 public:
  /// CUDA loads a kernel at its first launch, and must not do so while a stream waits.
  Chance() { poison(nullptr, busy_.data(), kBusy); }
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  /// Every fourth time the stream has something else to do, for up to some ten microseconds.
  void delay(cudaStream_t stream) {
    if (below(4) != 0) return;
    for (int i = below(6); i-- > 0;) poison(stream, busy_.data(), kBusy);
  }
  /// The ranks of a group, in the order in which the host gives them their calls.
  std::vector<int> order(int size) {
    std::vector<int> ranks(static_cast<std::size_t>(size));
    std::iota(ranks.begin(), ranks.end(), 0);
    std::shuffle(ranks.begin(), ranks.end(), random_);
    return ranks;
  }

 private:
  static constexpr std::size_t kBusy = std::size_t{8} << 20;
  std::mt19937 random_;
  Memory busy_{kBusy};
};

}  // namespace shard8::comm::tests
