// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "comm/mpi/all_reduce.hpp"
#include "tests/comm/buffer.hpp"

// What groups of more ranks than Limits::direct_ranks do: messages, memory, and the bits of the direct way.

namespace {

std::size_t sent = 0, received = 0, control_bytes = 0;

}  // namespace

// These functions replace the library's own, and count messages and bytes.
extern "C" {
int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request) {
  ++sent;
  return PMPI_Isend(data, count, type, to, tag, comm, request);
}
int MPI_Irecv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request* request) {
  ++received;
  return PMPI_Irecv(data, count, type, from, tag, comm, request);
}
int MPI_Iallgather(const void* data, int count, MPI_Datatype type, void* out, int of_each, MPI_Datatype out_type,
                   MPI_Comm comm, MPI_Request* request) {
  int ranks = 0;
  MPI_Comm_size(comm, &ranks);
  control_bytes = std::max(control_bytes, static_cast<std::size_t>(of_each) * static_cast<std::size_t>(ranks));
  return PMPI_Iallgather(data, count, type, out, of_each, out_type, comm, request);
}
}

namespace shard8::comm::tests {
namespace {

using Reduce = Communicator::Reduce;
using Way = AllReducePlan::Way;
using tensor::DType;

/// Tensors of odd sizes and several dtypes, of about so many elements; one empty.
std::vector<Buffer> buffers_of(std::int64_t elements, Reduce reduce, int rank) {
  std::vector<std::pair<std::int64_t, DType>> shapes = {{1, DType::bf16},
                                                        {3 * elements, DType::fp32},
                                                        {0, DType::bf16},
                                                        {5 * elements + 1, DType::bf16},
                                                        {11, DType::fp32}};
  if (reduce == Reduce::max) shapes.emplace_back(elements + 3, DType::i32);
  std::vector<Buffer> buffers;
  for (const auto& [count, dtype] : shapes)
    buffers.emplace_back(tensor::Shape{count}, dtype).fill(rank, static_cast<int>(buffers.size()));
  // NaN of one rank wins a maximum, and comes through a sum.
  buffers[1].set(elements, rank == 1 ? std::numeric_limits<float>::quiet_NaN() : 1.0f);
  return buffers;
}

std::vector<tensor::Tensor> tensors_of(std::vector<Buffer>& buffers) {
  std::vector<tensor::Tensor> tensors;
  for (Buffer& b : buffers) tensors.push_back(b.tensor());
  return tensors;
}

void expect_direct_bits(const Limits& limits, std::int64_t elements, Reduce reduce, Way way, Waiting waiting) {
  const Communicator direct = world(), relayed = world(nullptr, waiting, limits);
  auto want = buffers_of(elements, reduce, direct.rank()), got = want;
  direct.all_reduce(tensors_of(want), reduce).wait();

  std::size_t bytes = 0;
  for (const Buffer& b : got) bytes += b.bytes().size();
  const AllReducePlan plan = plan_all_reduce(bytes, got.size(), relayed.size(), limits);
  ASSERT_EQ(static_cast<int>(plan.way), static_cast<int>(way));
  sent = received = 0;
  relayed.all_reduce(tensors_of(got), reduce).wait();
  EXPECT_EQ(sent, received);
  if (way == Way::cut) {
    EXPECT_LE(sent, plan.messages) << "of short items some ranks have no share";
  } else if (plan.block_bytes * static_cast<std::size_t>(relayed.size()) < limits.message_bytes) {
    EXPECT_EQ(sent, plan.messages) << bytes << " bytes over " << relayed.size() << " ranks";
  }
  EXPECT_LE(relayed.scratch_bytes(), plan.scratch_bytes);
  EXPECT_GE(static_cast<double>(relayed.scratch_bytes()), 0.97 * static_cast<double>(plan.scratch_bytes) - 256);
  for (std::size_t i = 0; i < want.size(); ++i) {
    ASSERT_EQ(got[i].bytes(), want[i].bytes())
        << "tensor " << i << ", " << elements << " elements, direct_ranks " << limits.direct_ranks;
    EXPECT_TRUE(same_everywhere(got[i].bytes(), relayed.size()));
  }
}

TEST(LargeGroups, HaveTheBitsOfTheDirectWay) {
  const int ranks = world().size();
  for (const Reduce reduce : {Reduce::sum, Reduce::max}) {
    for (const int direct : std::set<int>{1, 2, 3, ranks - 1}) {
      if (direct >= ranks) continue;
      expect_direct_bits({.direct_ranks = direct}, 20, reduce, Way::relay_all, Waiting::yield);
      expect_direct_bits({.direct_ranks = direct}, 30000, reduce, Way::relay_cut, Waiting::yield);
    }
    expect_direct_bits({.direct_ranks = 2}, 30000, reduce, Way::relay_cut, Waiting::spin);
    // Blocks no longer than a message: several rounds, and messages of several blocks are cut.
    expect_direct_bits({.message_bytes = 40000, .direct_ranks = 1}, 30000, reduce, Way::relay_cut, Waiting::yield);
    expect_direct_bits({.message_bytes = 9999, .direct_ranks = 2}, 30000, reduce, Way::relay_cut, Waiting::yield);
    expect_direct_bits({.direct_ranks = ranks}, 30000, reduce, Way::cut, Waiting::yield);
  }
}

// Stages of several calls begin in any order, among reductions of other kinds, and waits come in any order.
TEST(LargeGroups, SeveralAllReducesAtATime) {
  const Communicator group = world(Limits{.direct_ranks = 1}), direct = world();
  std::vector<std::vector<Buffer>> want, got;
  for (int i = 0; i < 4; ++i) got.push_back(buffers_of(i % 2 == 0 ? 10000 : 7, Reduce::sum, group.rank() + 10 * i));
  want = got;
  for (auto& buffers : want) direct.all_reduce(tensors_of(buffers), Reduce::sum).wait();
  std::vector<Request> requests;
  for (auto& buffers : got) requests.push_back(group.all_reduce(tensors_of(buffers), Reduce::sum));
  Buffer whole({5 * group.size()}, DType::fp32), part({5}, DType::fp32);
  whole.fill(group.rank());
  group.reduce_scatter(part.tensor(), whole.tensor());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const std::size_t turn = group.rank() % 2 == 0 ? i : requests.size() - 1 - i;
    requests[turn].wait();
  }
  for (std::size_t i = 0; i < got.size(); ++i)
    for (std::size_t b = 0; b < got[i].size(); ++b) EXPECT_EQ(got[i][b].bytes(), want[i][b].bytes()) << i << ' ' << b;
}

// Figures of groups that no test can start, by the plan that calls follow (their messages are counted above).
TEST(LargeGroups, SendFewMessagesHoweverManyRanks) {
  const Limits limits;
  constexpr std::size_t kItems = 10, kMiB = std::size_t{1} << 20;
  for (int ranks = 2; ranks <= 16384; ranks += ranks < 100 ? 1 : ranks / 7) {
    std::size_t digits = 0;
    for (std::size_t power = 1; power < static_cast<std::size_t>(ranks); power *= 32) ++digits;
    EXPECT_LE(relay_messages(ranks, 32), 31 * digits);
    for (const std::size_t bytes : {std::size_t{4}, std::size_t{3000}, 64 * (kMiB >> 10), kMiB, 100 * kMiB}) {
      const AllReducePlan plan = plan_all_reduce(bytes, kItems, ranks, limits);
      if (ranks <= limits.direct_ranks) continue;
      EXPECT_LE(plan.messages, 2 * 31 * digits) << bytes << " bytes over " << ranks;
      EXPECT_LE(plan.messages, 2 * 3 * 31u);
      EXPECT_LE(plan.scratch_bytes, 2 * bytes + 4 * kMiB) << bytes << " bytes over " << ranks;
      EXPECT_EQ(plan.rounds, 1u);
      EXPECT_EQ(plan.scratch_bytes, Communicator::all_reduce_scratch_bytes(bytes, ranks, kItems));
    }
    // What is much larger takes rounds and no more memory.
    if (ranks <= limits.direct_ranks) continue;
    const AllReducePlan huge = plan_all_reduce(10000 * kMiB, kItems, ranks, limits);
    EXPECT_LE(huge.scratch_bytes, 257 * kMiB);
    EXPECT_LE(huge.messages, 80u * 2 * 31 * digits);
  }
  EXPECT_EQ(relay_messages(33, 32), 32u);
  EXPECT_EQ(relay_messages(16384, 32), 31u + 31 + 15);
  EXPECT_EQ(relay_messages(9, 2), 4u);
}

// Many values are received in blocks; a sum is that of the ranks' order.
TEST(LargeGroups, ReceiveControlValuesInBlocks) {
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  const Communicator group = world();
  std::vector<double> sum(300001), max(sum.size());
  const auto of = [](std::size_t i, int rank) { return std::sqrt(value(rank, static_cast<std::int64_t>(i)) + 3.0); };
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = max[i] = of(i, group.rank());
  control_bytes = 0;
  group.all_reduce(sum, Reduce::sum);
  group.all_reduce(max, Reduce::max);
  const auto texts = group.all_gather(std::string(std::size_t{900000} + static_cast<std::size_t>(group.rank()), 'x'));
  EXPECT_LE(control_bytes, kMiB);
  for (std::size_t i = 0; i < sum.size(); ++i) {
    double expected = of(i, 0);
    for (int r = 1; r < group.size(); ++r) expected += of(i, r);
    ASSERT_EQ(sum[i], expected) << i;
    double largest = of(i, 0);
    for (int r = 1; r < group.size(); ++r) largest = std::max(largest, of(i, r));
    ASSERT_EQ(max[i], largest) << i;
  }
  for (std::size_t r = 0; r < texts.size(); ++r) EXPECT_EQ(texts[r], std::string(900000 + r, 'x'));
}

}  // namespace
}  // namespace shard8::comm::tests
