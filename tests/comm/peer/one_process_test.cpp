// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// One process plays all ranks of a group on one device: a stream and a block of memory for each rank.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "comm/peer/exchange.hpp"
#include "comm/peer/peer_block.hpp"
#include "tensor/alignment.hpp"
#include "tensor/cuda/check.hpp"
#include "tensor/cuda/device.hpp"
#include "tensor/cuda/event.hpp"
#include "tensor/cuda/stream.hpp"
#include "tests/comm/buffer.hpp"

namespace shard8::comm::tests {
namespace {

using peer::ExchangeKernels;
using peer::Handshake;
using peer::PeerAddresses;
using peer::PeerBlock;
using tensor::cuda::Event;
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

std::vector<std::byte> download(const std::byte* from, std::size_t bytes) {
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

/// The ranks push their parts to the same place in every rank's memory.
void add_parts(Ranks& ranks, const Parts& parts) {
  for (int r = 0; r < ranks.size(); ++r) {
    for (int k = 1; k <= ranks.size(); ++k)
      ranks[r].add(ranks[r].peer(k), static_cast<std::size_t>(r) * parts.bytes(), parts.of(r), parts.bytes());
  }
}

TEST(OneProcess, pushes_arrive_at_all_ranks) {
  for (const int size : {2, 3, 4, 8}) {
    const Parts parts(size, 40001);
    Ranks ranks(size, parts.all().size());
    for (int call = 0; call < 3; ++call) {
      for (int r = 0; r < size; ++r)
        SHARD8_CUDA_CHECK(cudaMemsetAsync(ranks[r].data(), call, parts.all().size(), ranks.stream(r)));
      add_parts(ranks, parts);
      for (int r = 0; r < size; ++r) ranks[r].push();
      for (int r = 0; r < size; ++r)
        EXPECT_EQ(download(ranks[r].data(), parts.all().size()), parts.all()) << size << " ranks, rank " << r;
    }
  }
}

TEST(OneProcess, each_part_can_be_waited_for) {
  constexpr int kSize = 3;
  const Parts parts(kSize, 1021);
  Ranks ranks(kSize, parts.all().size());
  add_parts(ranks, parts);
  std::vector<PeerBlock::Arrivals> arrivals;
  for (int r = 0; r < kSize; ++r) arrivals.push_back(ranks[r].push_parts());
  std::vector<std::unique_ptr<Memory>> seen;
  for (int r = 0; r < kSize; ++r) {
    seen.push_back(std::make_unique<Memory>(parts.all().size()));
    for (int from = 0; from < kSize; ++from) {
      const std::size_t first = static_cast<std::size_t>(from) * parts.bytes();
      arrivals[static_cast<std::size_t>(r)].await(from);
      SHARD8_CUDA_CHECK(cudaMemcpyAsync(seen.back()->data() + first, ranks[r].data() + first, parts.bytes(),
                                        cudaMemcpyDeviceToDevice, ranks.stream(r)));
    }
  }
  for (int r = 0; r < kSize; ++r)
    EXPECT_EQ(download(seen[static_cast<std::size_t>(r)]->data(), parts.all().size()), parts.all()) << "rank " << r;
}

TEST(OneProcess, a_part_does_not_wait_for_another_one) {
  constexpr std::size_t kBytes = 4096;
  Ranks ranks(3, 2 * kBytes);
  const Stream other;
  // Rank 2 is played by the host, which writes the words of its handshakes.
  const auto tell = [&](Handshake::Word word) {
    const std::uint32_t number = 1;
    for (int to = 0; to < 2; ++to) {
      std::byte* const words = ranks[to].data() + tensor::aligned(2 * kBytes);
      SHARD8_CUDA_CHECK(cudaMemcpyAsync(words + (word * 3 + 2) * sizeof number, &number, sizeof number,
                                        cudaMemcpyHostToDevice, other));
    }
    SHARD8_CUDA_CHECK(cudaStreamSynchronize(other));
  };
  const Memory part(kBytes);
  ranks[1].add(0, 0, part.data(), kBytes);
  auto here = ranks[0].push_parts();
  auto there = ranks[1].push_parts();
  const Event part_of_1, part_of_2;
  here.await(1);
  part_of_1.record(ranks.stream(0));
  here.await(2);
  part_of_2.record(ranks.stream(0));
  there.await(0);
  there.await(2);
  tell(Handshake::ready);
  part_of_1.synchronize();
  EXPECT_FALSE(part_of_2.happened());
  tell(Handshake::done);
  part_of_2.synchronize();
  SHARD8_CUDA_CHECK(cudaDeviceSynchronize());
}

TEST(OneProcess, kernels_gather_and_sum) {
  const int multiprocessors = tensor::cuda::describe_device(tensor::cuda::current_device()).multiprocessors;
  for (const int size : {2, 3, 4}) {
    const std::int64_t count = 40001;
    const Parts parts(size, count);
    const Memory scratch(parts.bytes());
    Ranks ranks(size, parts.all().size());
    const auto copies_to = [&](int rank) {
      ExchangeKernels::Copies copies;
      for (int k = 0; k < size; ++k) copies.add(ranks[k].data() + static_cast<std::size_t>(rank) * parts.bytes());
      return copies;
    };
    const auto parts_of = [&](int rank) {
      peer::Parts of;
      for (int r = 0; r < size; ++r) of.add(ranks[rank].data() + static_cast<std::size_t>(r) * parts.bytes());
      return of;
    };
    // All blocks of all ranks must run at once.
    const auto kernels = [&](int rank) { return ExchangeKernels{ranks.stream(rank), multiprocessors / 2 / size}; };
    // CUDA loads a kernel at its first launch, and must not do so while another one waits.
    Handshake alone;
    Memory counter(sizeof(unsigned));
    alone.arrived = reinterpret_cast<unsigned*>(counter.data());
    kernels(0).copy(alone, {}, parts.of(0), parts.bytes(), copies_to(0));
    kernels(0).sum(alone, {}, scratch.data(), tensor::DType::fp32, count, parts_of(0));
    SHARD8_CUDA_CHECK(cudaDeviceSynchronize());

    for (int r = 0; r < size; ++r) kernels(r).copy(ranks[r].handshake(), {}, parts.of(r), parts.bytes(), copies_to(r));
    for (int r = 0; r < size; ++r)
      ASSERT_EQ(download(ranks[r].data(), parts.all().size()), parts.all()) << size << " ranks, rank " << r;

    std::vector<std::unique_ptr<Memory>> sums;  // allocated first: CUDA allocates nothing while a kernel waits
    for (int r = 0; r < size; ++r) sums.push_back(std::make_unique<Memory>(parts.bytes()));
    for (int r = 0; r < size; ++r) {
      kernels(r).sum(ranks[r].handshake(), {}, sums[static_cast<std::size_t>(r)]->data(), tensor::DType::fp32, count,
                     parts_of(r));
    }
    Buffer expected(tensor::Shape{count}, tensor::DType::fp32);
    for (std::int64_t i = 0; i < count; ++i) {
      float sum = value(0, i);
      for (int r = 1; r < size; ++r) sum += value(r, i);
      expected.set(i, sum);
    }
    for (int r = 0; r < size; ++r)
      EXPECT_EQ(download(sums[static_cast<std::size_t>(r)]->data(), parts.bytes()), expected.bytes())
          << size << " ranks, rank " << r;
  }
}

}  // namespace
}  // namespace shard8::comm::tests
