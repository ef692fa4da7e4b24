// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "base/error.hpp"
#include "comm/device.hpp"
#include "tests/comm/nccl/job.hpp"

namespace shard8::comm::tests {
namespace {

using nccl::Gather;
using tensor::DType;
using tensor::Tensor;
using PeersRead = Communicator::PeersRead;

constexpr std::int64_t kCount = 30000;  ///< elements that a rank writes to each rank in a call

Buffer values(int rank, int salt) {
  Buffer buffer({kCount}, DType::bf16);
  buffer.fill(rank, salt);
  return buffer;
}

/// A group whose ranks write to each other's memory, which has two halves with a place for each rank.
struct Pushes {
  Pushes(Job& j, const Communicator& of)
      : job(j),
        group(of),
        bytes(values(0, 0).bytes().size()),
        half(bytes * static_cast<std::size_t>(of.size())),
        memory(of.push_memory(2 * half)) {}

  /// The call in which rank r writes values(r, salt) to all ranks.
  void push(const Tensor& from, int of_half, PeersRead peers_read) const {
    const std::size_t place = static_cast<std::size_t>(of_half) * half + static_cast<std::size_t>(group.rank()) * bytes;
    group
        .push(
            *memory, {&from, 1}, "experts",
            [&] {
              for (int r = 0; r < group.size(); ++r)
                SHARD8_CUDA_CHECK(cudaMemcpyAsync(memory->of(r) + place, from.data, from.bytes(),
                                                  cudaMemcpyDeviceToDevice,
                                                  static_cast<cudaStream_t>(memory->stream())));
            },
            peers_read)
        .wait();
  }

  Job& job;
  const Communicator& group;
  std::size_t bytes, half;
  std::shared_ptr<PushMemory> memory;
};

/// Pushes in the order of the compute stream, of which each rank copies what it has received, and overwrites it. No
/// host waits between them.
void expect_pushes(Job& j, const Communicator& group) {
  constexpr int kRounds = 24;
  const Pushes pushes(j, group);
  ASSERT_NE(pushes.memory, nullptr);
  EXPECT_EQ(pushes.memory->of(group.rank()), pushes.memory->data());
  const Block busy(std::size_t{64} << 20), seen(kRounds * pushes.half), from_block(kRounds * pushes.bytes);
  std::vector<Buffer> inputs;
  for (int round = 0; round < kRounds; ++round) inputs.push_back(values(group.rank(), round));
  for (int round = 0; round < kRounds; ++round) {
    const auto i = static_cast<std::size_t>(round);
    Tensor from = from_block.tensor({kRounds, kCount}, DType::bf16).slice(round, 1);
    from.shape = {kCount};
    keep_busy(j, busy, std::size_t{64} << 20, (group.rank() + round) % 3);
    upload(j, from, inputs[i].bytes());
    // Halves take turns from round 8 on.
    const int half = round < 8 ? 0 : round % 2;
    pushes.push(from, half, round > 8 ? PeersRead::known : PeersRead::waited_for);
    std::byte* const received = pushes.memory->data() + static_cast<std::size_t>(half) * pushes.half;
    SHARD8_CUDA_CHECK(cudaMemcpyAsync(seen.tensor({1}, DType::u8).data + i * pushes.half, received, pushes.half,
                                      cudaMemcpyDeviceToDevice, j.compute));
    SHARD8_CUDA_CHECK(cudaMemsetAsync(received, 0xff, pushes.half, j.compute));
  }
  const auto all = download(j, seen.tensor({static_cast<std::int64_t>(kRounds * pushes.half)}, DType::u8));
  for (int round = 0; round < kRounds; ++round) {
    for (int r = 0; r < group.size(); ++r) {
      const Buffer want = values(r, round);
      const std::byte* const got =
          all.data() + static_cast<std::size_t>(round) * pushes.half + static_cast<std::size_t>(r) * pushes.bytes;
      EXPECT_EQ(std::memcmp(got, want.bytes().data(), pushes.bytes), 0)
          << group.name() << ", round " << round << ", of rank " << r;
    }
  }
}

bool can_push(Job& j) { return j.world.size() > 1 && j.world.push_memory(4096) != nullptr; }

TEST(Push, arrives_in_the_order_of_the_compute_stream) {
  Job& j = job(Gather::push);
  if (!can_push(j)) GTEST_SKIP() << "no memory of peers";
  expect_pushes(j, j.world);
  expect_pushes(j, *j.overlapped);  // whose other collectives have streams of their own
  if (j.half->size() > 1) expect_pushes(j, *j.half);
}

TEST(Push, arrives_from_another_stream) {
  Job& j = job(Gather::push);
  if (!can_push(j)) GTEST_SKIP() << "no memory of peers";
  const Communicator pushing = j.world.split(0, j.world.rank(), "pushing", {.push = true});
  EXPECT_NE(pushing.push_memory(4096)->stream(), j.world.push_memory(4096)->stream());
  expect_pushes(j, pushing);
}

TEST(Push, is_recorded_with_the_bytes_that_were_given) {
  Job& j = job(Gather::push);
  if (!can_push(j)) GTEST_SKIP() << "no memory of peers";
  finish(j);
  j.world.record_device_calls();  // those of other tests
  j.log.clear();
  j.log.set_measuring(true);
  const Pushes pushes(j, j.world);
  const Block from(pushes.bytes);
  SHARD8_CUDA_CHECK(cudaMemsetAsync(from.tensor({1}, DType::u8).data, 0, pushes.bytes, j.compute));
  for (int i = 0; i < 3; ++i) pushes.push(from.tensor({kCount}, DType::bf16), 0, PeersRead::waited_for);
  finish(j);
  j.world.record_device_calls();
  const auto& stats = j.log.entries().at(
      profile::kind_of({profile::Collective::all_to_all, "world", j.world.size(), "bf16", pushes.bytes}));
  EXPECT_EQ(stats.calls, 3u);
  EXPECT_EQ(stats.bytes, 3 * pushes.bytes);
  EXPECT_GT(stats.total_s, 0);
  EXPECT_EQ(stats.total_s, stats.exposed_s);
  j.log.clear();
}

TEST(Push, needs_memory_of_peers) {
  Job& j = job(Gather::nccl);
  EXPECT_EQ(j.world.push_memory(4096), nullptr);
  if (j.world.size() == 1) return;
  const auto lines = j.world.device()->describe();
  EXPECT_TRUE(std::ranges::any_of(lines, [](const std::string& line) {
    return line.find("kernels that write peers' memory are not active: ") != std::string::npos;
  }));
}

TEST(Push, takes_only_push_memory) {
  Job& j = job(Gather::push);
  if (j.world.size() == 1) GTEST_SKIP() << "one rank";
  struct Other final : PushMemory {
    std::byte* data() const override { return nullptr; }
    std::size_t bytes() const override { return 0; }
    std::byte* of(int) const override { return nullptr; }
    void* stream() const override { return nullptr; }
  } other;
  EXPECT_THROW(static_cast<void>(j.world.push(other, {}, {}, [] {})), base::Error);
}

}  // namespace
}  // namespace shard8::comm::tests
