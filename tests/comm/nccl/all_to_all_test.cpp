// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <vector>

#include "tests/comm/all_to_all.hpp"
#include "tests/comm/nccl/job.hpp"

namespace shard8::comm::tests {
namespace {

using nccl::Gather;
using tensor::DType;
using tensor::Tensor;

/// The tensors of one item in memory of the device that nobody else sees.
struct OnDevice {
  OnDevice(Job& j, Buffer& given, Buffer& got) : in_block(given.bytes().size()), out_block(got.bytes().size()) {
    in = in_block.tensor(given.tensor().shape, given.dtype());
    out = out_block.tensor(got.tensor().shape, got.dtype());
    upload(j, in, given.bytes());
    upload(j, out, got.bytes());
  }
  Block in_block, out_block;
  Tensor in, out;
};

class Exchanges : public ::testing::TestWithParam<Gather> {
 protected:
  /// Calls run(group) on streams of its own and on the compute stream, without and with memory for all-to-alls.
  template <class Run>
  void in_all_ways(const Run& run) {
    Job& j = job(GetParam());
    for (const Communicator* group : {&*j.overlapped, &j.world}) {
      run(j, *group);
      const auto memory = group->all_to_all_memory(std::size_t{8} << 20);
      run(j, *group);
      finish(j);
    }
  }
};

TEST_P(Exchanges, equal_plain_mpi) {
  in_all_ways([](Job& j, const Communicator& group) {
    std::deque<AllToAll> all;
    std::deque<OnDevice> tensors;
    std::vector<Communicator::AllToAllItem> items;
    for (const DType dtype : kExchanged) {
      for (const Counts counts : kCounts) {
        AllToAll& one = all.emplace_back(group, dtype, 48, counts, static_cast<int>(all.size()));
        const OnDevice& on = tensors.emplace_back(j, one.in, one.out);
        items.push_back({on.out, on.in, one.receive_rows, one.send_rows});
      }
    }
    group.all_to_all(items, "experts").wait();
    for (std::size_t i = 0; i < all.size(); ++i)
      EXPECT_EQ(download(j, tensors[i].out), all[i].expected()) << group.name() << ", item " << i;
  });
}

TEST_P(Exchanges, pass_tensors_to_neighbours) {
  in_all_ways([](Job& j, const Communicator& group) {
    for (const int distance : {1, -1, 2, 0}) {
      std::deque<Shift> all;
      std::deque<OnDevice> tensors;
      std::vector<Communicator::SendReceiveItem> items;
      for (const DType dtype : kExchanged) {
        Shift& one = all.emplace_back(group, dtype, distance, static_cast<int>(all.size()));
        const OnDevice& on = tensors.emplace_back(j, one.in, one.out);
        items.push_back({on.out, on.in});
      }
      group.send_receive(items, distance, "attention").wait();
      for (std::size_t i = 0; i < all.size(); ++i)
        EXPECT_EQ(download(j, tensors[i].out), all[i].expected()) << group.name() << ", distance " << distance;
    }
  });
}

// Each call reads what the compute stream wrote before it, and the compute stream reads what it brings, though no host
// waits. Gathers come between.
TEST_P(Exchanges, come_in_the_order_of_the_compute_stream) {
  in_all_ways([](Job& j, const Communicator& group) {
    constexpr int kRounds = 20;
    const Block busy(std::size_t{64} << 20);
    const Tensor whole = j.allocate({4000 * group.size()}, DType::fp32);
    std::deque<AllToAll> all;
    std::deque<OnDevice> results;
    AllToAll first(group, DType::bf16, 64, &unequal_counts, 0);
    const OnDevice on(j, first.in, first.out);
    for (int round = 0; round < kRounds; ++round) {
      AllToAll& one = all.emplace_back(group, DType::bf16, 64, &unequal_counts, round);
      OnDevice& result = results.emplace_back(j, one.out, one.out);
      keep_busy(j, busy, std::size_t{64} << 20, group.rank() == 0 ? 3 : 1);
      upload(j, on.in, one.in.bytes());
      Request exchange =
          group.all_to_all(std::array{Communicator::AllToAllItem{on.out, on.in, one.receive_rows, one.send_rows}});
      Request gather = group.all_gather_in_place({&whole, 1});
      exchange.wait();
      if (!on.out.empty())
        SHARD8_CUDA_CHECK(
            cudaMemcpyAsync(result.out.data, on.out.data, on.out.bytes(), cudaMemcpyDeviceToDevice, j.compute));
      gather.wait();
    }
    for (int round = 0; round < kRounds; ++round) {
      const auto i = static_cast<std::size_t>(round);
      EXPECT_EQ(download(j, results[i].out), all[i].expected()) << group.name() << ", round " << round;
    }
  });
}

TEST_P(Exchanges, too_little_memory_is_an_error) {
  Job& j = job(GetParam());
  const auto memory = j.overlapped->all_to_all_memory(4096);
  if (memory == nullptr) GTEST_SKIP() << "NCCL needs none";
  AllToAll one(*j.overlapped, DType::fp32, 4096, &equal_counts, 0);
  const OnDevice on(j, one.in, one.out);
  EXPECT_THROW(static_cast<void>(j.overlapped->all_to_all(
                   std::array{Communicator::AllToAllItem{on.out, on.in, one.receive_rows, one.send_rows}})),
               base::Error);
}

INSTANTIATE_TEST_SUITE_P(Ways, Exchanges, ::testing::Values(Gather::nccl, Gather::push));

}  // namespace
}  // namespace shard8::comm::tests
