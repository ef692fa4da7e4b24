// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// One process plays all ranks of a group on one device, which write into each other's memory between two meetings, with
// delays at random places of their streams. What a rank has received is copied and overwritten at once: a rank that
// writes too early or reads too early finds or leaves other bytes.

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "comm/peer/peer_memory.hpp"
#include "tests/comm/peer/one_process.hpp"

namespace shard8::comm::tests {
namespace {

using peer::PushedMemory;
using PeersRead = Communicator::PeersRead;

constexpr int kCalls = 1000, kOfBatch = 20;  ///< calls; those between which the host does not wait for the device
constexpr std::size_t kBytes = 30016;        ///< that a rank writes to each rank in a call

/// The ranks of a group, each with memory of two halves, which have a place for each rank.
struct Pushers {
  explicit Pushers(int size)
      : n(static_cast<std::size_t>(size)),
        host(kOfBatch * n * kBytes),
        inputs(host.size()),
        seen(kOfBatch * n * n * kBytes) {
    std::mt19937 random(7);
    for (auto& byte : host) byte = static_cast<std::byte>(random() % 255);
    SHARD8_CUDA_CHECK(cudaMemcpy(inputs.data(), host.data(), host.size(), cudaMemcpyHostToDevice));
    const std::size_t bytes = 2 * n * kBytes, all = PeerBlock::memory_bytes(bytes, size);
    std::vector<std::byte*> base;
    for (int r = 0; r < size; ++r) base.push_back(memory.emplace_back(std::make_unique<Memory>(all))->data());
    for (int r = 0; r < size; ++r) {
      streams.push_back(std::make_unique<Stream>());
      ranks.push_back(
          std::make_unique<PushedMemory>(std::make_shared<PeerAddresses>(r, base, all), bytes, streams.back()->get()));
    }
  }

  /// Rank r writes the `input`-th of kOfBatch to all ranks, and takes what it receives.
  void push(int r, int call, int half, int input, PeersRead peers_read, Chance& chance) {
    const auto rank = static_cast<std::size_t>(r), first = static_cast<std::size_t>(half) * n * kBytes;
    const cudaStream_t stream = streams[rank]->get();
    const int size = static_cast<int>(n);
    chance.delay(stream);
    ranks[rank]->begin(peers_read);
    for (int k = 1; k <= size; ++k) {
      chance.delay(stream);
      copy(stream, ranks[rank]->of((r + k) % size) + first + rank * kBytes, part(inputs.data(), input, rank), kBytes);
    }
    ranks[rank]->end();
    chance.delay(stream);
    copy(stream, seen.data() + (static_cast<std::size_t>(call) * n + rank) * n * kBytes, ranks[rank]->data() + first,
         n * kBytes);
    poison(stream, ranks[rank]->data() + first, n * kBytes);
  }
  template <class Byte>
  Byte* part(Byte* all, int input, std::size_t rank) const {
    return all + (static_cast<std::size_t>(input) * n + rank) * kBytes;
  }

  std::size_t n;
  std::vector<std::byte> host;
  Memory inputs, seen;
  std::vector<std::unique_ptr<Memory>> memory;
  std::vector<std::unique_ptr<Stream>> streams;
  std::vector<std::unique_ptr<PushedMemory>> ranks;
};

TEST(OneProcessPush, of_all_ranks_to_all_ranks) {
  for (const int size : {1, 2, 3, 4, 8}) {  // one rank alone waits for nobody; its kernels are loaded then
    Chance chance;
    Pushers pushers(size);
    int half = 0;
    for (int batch = 0; batch < kCalls / kOfBatch; ++batch) {
      std::vector<int> inputs;
      for (int call = 0; call < kOfBatch; ++call) {
        const int input = inputs.emplace_back(chance.below(kOfBatch)), last = std::exchange(half, chance.below(2));
        // What was written to this half was read before the call before this one, which wrote to the other half.
        const bool known = half != last && chance.below(3) != 0;
        for (const int r : chance.order(size))
          pushers.push(r, call, half, input, known ? PeersRead::known : PeersRead::waited_for, chance);
      }
      const std::size_t bytes = pushers.n * kBytes;
      const std::vector<std::byte> seen = download(pushers.seen.data(), kOfBatch * pushers.n * bytes);
      for (std::size_t i = 0; i < kOfBatch * pushers.n; ++i) {
        const std::byte* const want = pushers.part(pushers.host.data(), inputs[i / pushers.n], 0);
        ASSERT_EQ(std::memcmp(seen.data() + i * bytes, want, bytes), 0)
            << size << " ranks, rank " << i % pushers.n << ", call "
            << batch * kOfBatch + static_cast<int>(i / pushers.n);
      }
    }
  }
}

/// A rank that comes late holds the others: at the first meeting, and at the second.
TEST(OneProcessPush, waits_for_a_late_rank) {
  Chance chance;
  Pushers one(1), pushers(2);
  one.push(0, 0, 0, 0, PeersRead::waited_for, chance);  // loads the kernels
  SHARD8_CUDA_CHECK(cudaDeviceSynchronize());
  for (const PeersRead peers_read : {PeersRead::waited_for, PeersRead::known}) {
    pushers.push(0, 0, 0, 0, peers_read, chance);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_EQ(cudaStreamQuery(pushers.streams[0]->get()), cudaErrorNotReady);
    pushers.push(1, 0, 0, 0, peers_read, chance);
    SHARD8_CUDA_CHECK(cudaDeviceSynchronize());
  }
}

}  // namespace
}  // namespace shard8::comm::tests
