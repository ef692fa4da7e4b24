// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// Exchanges whose parts are used one by one, on devices: pushed by copy engines, and as ordinary collectives.

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "tests/comm/nccl/job.hpp"

namespace shard8::comm::tests {
namespace {

using nccl::Gather;
using tensor::DType;
using tensor::Tensor;

void copy(const Job& j, const Tensor& to, const Tensor& from) {
  SHARD8_CUDA_CHECK(cudaMemcpyAsync(to.data, from.data, from.bytes(), cudaMemcpyDefault, j.compute));
}

class Parts : public ::testing::TestWithParam<Gather> {};

// Each part is copied as soon as it was waited for, while ranks are at other places in their streams. The same wholes
// serve all rounds.
void expect_gathers(Job& j, const Communicator& group, Pool& pool) {
  constexpr int kRounds = 20;
  constexpr std::int64_t kRows = 30000, kScales = 100, kBytes = 2 * kRows + 4 * kScales;
  const int n = group.size(), rank = group.rank();
  const std::vector<Tensor> whole{pool.allocate({kRows * n, 2}, DType::e4m3),
                                  pool.allocate({kScales * n}, DType::fp32)};
  const Block mine(kBytes), busy(std::size_t{64} << 20), inputs(kRounds * kBytes),
      seen(static_cast<std::size_t>(kRounds * n * kBytes));
  const std::vector<Tensor> own{mine.tensor({kRows, 2}, DType::e4m3),
                                {mine.tensor({kBytes}, DType::u8).data + 2 * kRows, {kScales}, DType::fp32}};
  const Tensor all_mine = mine.tensor({kBytes}, DType::u8);
  const auto input = [&](int round) {
    return inputs.tensor({kRounds * kBytes}, DType::u8).slice(round * kBytes, kBytes);
  };
  const auto seen_of = [&](int round, int from) {
    return seen.tensor({kRounds * n * kBytes}, DType::u8).slice((round * n + from) * kBytes, kBytes);
  };
  std::vector<Buffer> host;
  for (int round = 0; round < kRounds; ++round) {
    host.emplace_back(tensor::Shape{kBytes}, DType::u8).fill(j.world.rank(), round);
    upload(j, input(round), host.back().bytes());
  }
  for (int round = 0; round < kRounds; ++round) {
    keep_busy(j, busy, std::size_t{64} << 20, (round * 7 + rank * 3) % 5 * 4);
    copy(j, all_mine, input(round));
    GatherParts parts = group.all_gather_parts(whole, own, "fc1_fprop");
    for (int k = 0; k < n; ++k) {
      const int from = parts.arrival(k);
      parts.await(from);
      copy(j, seen_of(round, from).slice(0, 2 * kRows), parts.part(0, from));
      copy(j, seen_of(round, from).slice(2 * kRows, 4 * kScales), parts.part(1, from));
    }
    parts.finish();
  }
  for (int round = 0; round < kRounds; ++round) {
    const auto& bytes = host[static_cast<std::size_t>(round)].bytes();
    const auto all = group.all_gather(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    for (int from = 0; from < n; ++from) {
      const auto found = download(j, seen_of(round, from));
      ASSERT_EQ(std::memcmp(found.data(), all[static_cast<std::size_t>(from)].data(), found.size()), 0)
          << "round " << round << ", rows of rank " << from;
    }
  }
}

TEST_P(Parts, of_gathers_are_the_rows_of_each_rank) {
  Job& j = job(GetParam());
  Pool exchanged(j.world);
  expect_gathers(j, *j.overlapped, *j.pool);
  expect_gathers(j, *j.half, *j.half_pool);
  expect_gathers(j, *j.half, *j.pool);    // memory of another group: an ordinary collective
  expect_gathers(j, j.world, exchanged);  // on the compute stream
}

// With memory for one turn the bytes are those of hosts; without, those of the ordinary collective.
TEST_P(Parts, of_scatters_are_summed) {
  Job& j = job(GetParam());
  const int n = j.world.size(), rank = j.world.rank();
  const std::int64_t rows = 20011;
  const auto memory =
      j.overlapped->reduce_memory(Communicator::reduce_memory_bytes(static_cast<std::size_t>(rows) * 4, n));
  const Block busy(std::size_t{64} << 20);
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    for (const Communicator* group : {&*j.overlapped, &j.world}) {
      j.pool->used = 0;
      const Tensor whole = j.allocate({rows * n}, dtype), source = j.allocate({rows * n}, dtype),
                   out = j.allocate({rows}, dtype), plain = j.allocate({rows}, dtype);
      for (int round = 0; round < 5; ++round) {
        Buffer mine(whole.shape, dtype), addend(out.shape, dtype);
        mine.fill(rank, round);
        addend.fill(rank, 50 + round);
        upload(j, source, mine.bytes());
        upload(j, whole, std::vector<std::byte>(whole.bytes(), std::byte{0xff}));
        upload(j, out, addend.bytes());
        upload(j, plain, addend.bytes());
        finish(j);
        const bool adds = n > 1 && round % 2 == 1;
        keep_busy(j, busy, std::size_t{64} << 20, (round * 7 + rank * 3) % 5 * 4);
        ScatterParts parts = group->reduce_scatter_parts({out, whole, adds ? out : Tensor{}}, "fc2_fprop");
        EXPECT_EQ(parts.whole().data, whole.data);
        for (int k = 1; k <= n; ++k) {
          const int to = parts.destination(k);
          keep_busy(j, busy, std::size_t{64} << 20, 2);
          const std::int64_t pieces = n > 1 ? round % 3 + 1 : 1;  // a rank alone gives all rows at once
          for (std::int64_t i = 0; i < pieces; ++i) {
            const std::int64_t first = rows * i / pieces, count = rows * (i + 1) / pieces - first;
            copy(j, parts.whole().slice(to * rows + first, count), source.slice(to * rows + first, count));
            if (n > 1)
              parts.give(to, first, count);
            else
              parts.give(to);
          }
        }
        parts.finish();
        copy(j, whole, source);
        group->reduce_scatter(std::vector<Communicator::ReduceScatterItem>{{plain, whole, adds ? plain : Tensor{}}})
            .wait();
        EXPECT_EQ(download(j, out), download(j, plain)) << group->name() << ", round " << round;
      }
    }
  }
}

// The compute stream reads the partial sums late, while the other ranks may be at the next call, in parts or not.
TEST_P(Parts, that_are_left_to_their_reader_are_the_partial_sums) {
  Job& j = job(GetParam());
  constexpr int kRounds = 20;
  const int n = j.world.size(), rank = j.world.rank();
  const std::int64_t rows = 20011;
  auto memory = j.overlapped->reduce_memory(Communicator::reduce_memory_bytes(static_cast<std::size_t>(rows) * 4, n));
  if (GetParam() == Gather::nccl) memory.reset();  // the ordinary collective
  const Block busy(std::size_t{64} << 20);
  j.pool->used = 0;
  const Tensor whole = j.allocate({rows * n}, DType::fp32), other = j.allocate({rows * n}, DType::fp32);
  const Tensor out = j.allocate({rows}, DType::fp32);
  const Tensor addend = j.allocate({rows}, DType::fp32);
  {
    Buffer mine(addend.shape, DType::fp32);
    mine.fill(rank, 50);
    upload(j, addend, mine.bytes());
  }
  const auto in_parts = [n](int round) { return n > 1 && round % 2 == 1; };  // with the addend
  std::vector<Tensor> inputs;
  std::vector<std::vector<Tensor>> seen(kRounds);
  for (int round = 0; round < kRounds; ++round) {
    Buffer mine(whole.shape, DType::fp32);
    mine.fill(rank, round);
    inputs.push_back(j.allocate({rows * n}, DType::fp32));
    upload(j, inputs.back(), mine.bytes());
    for (int k = 0; k <= n; ++k) seen[static_cast<std::size_t>(round)].push_back(j.allocate({rows}, DType::fp32));
  }
  finish(j);
  bool left = false;
  for (int round = 0; round < kRounds; ++round) {
    auto& copies = seen[static_cast<std::size_t>(round)];
    keep_busy(j, busy, std::size_t{64} << 20, (round * 7 + rank * 3) % 5 * 4);
    copy(j, whole, inputs[static_cast<std::size_t>(round)]);
    tensor::PartialSums partial_sums;
    if (in_parts(round)) {
      ScatterParts parts = j.overlapped->reduce_scatter_parts({out, whole, addend}, "fc2_fprop");
      for (int k = 1; k <= n; ++k) parts.give(parts.destination(k));
      partial_sums = parts.finish_partial_sums().value_or(out);
    } else {
      j.overlapped->reduce_scatter_partial_sums({out, whole}, partial_sums, "fc1_wgrad").wait();
    }
    keep_busy(j, busy, std::size_t{64} << 20, (round * 3 + rank * 5) % 4 * 4);
    left = left || partial_sums.count() > 1;
    for (int k = 0; k < partial_sums.count(); ++k) copy(j, copies[static_cast<std::size_t>(k)], partial_sums[k]);
    copies.resize(static_cast<std::size_t>(partial_sums.count()));
    copy(j, other, inputs[static_cast<std::size_t>(kRounds - 1 - round)]);
    if (round % 3 == 1) j.overlapped->reduce_scatter(out, other);
    if (round % 3 != 2) continue;
    ScatterParts parts = j.overlapped->reduce_scatter_parts({out, other}, "fc2_fprop");
    for (int k = 1; k <= n; ++k) parts.give(parts.destination(k));
    parts.finish();
  }
  EXPECT_EQ(left, n < tensor::PartialSums::kMost && memory != nullptr);
  for (int round = 0; round < kRounds; ++round) {
    const auto& copies = seen[static_cast<std::size_t>(round)];
    std::vector<Buffer> parts;
    for (const Tensor& t : copies) {
      parts.emplace_back(t.shape, DType::fp32);
      const auto bytes = download(j, t);
      std::memcpy(parts.back().tensor().data, bytes.data(), bytes.size());
    }
    for (std::int64_t i = 0; i < rows; ++i) {
      float sum = 0, expected = 0;
      for (std::size_t k = 0; k < parts.size(); ++k) sum = k == 0 ? parts[k].get(i) : sum + parts[k].get(i);
      for (int r = 0; r < n; ++r) {
        const float x = value(r, rank * rows + i, round);
        expected = r == 0 ? x : expected + x;
      }
      if (in_parts(round)) expected += value(rank, i, 50);
      if (left || n <= 2)
        ASSERT_EQ(sum, expected) << "round " << round << ", element " << i;
      else
        ASSERT_NEAR(sum, expected, 1e-5) << "round " << round << ", element " << i;
    }
  }
}

TEST_P(Parts, are_recorded_as_the_collectives_are) {
  Job& j = job(GetParam());
  if (j.world.size() == 1) return;
  const int n = j.world.size();
  j.world.record_device_calls();
  const Tensor whole = j.allocate({1000 * n}, DType::bf16), out = j.allocate({1000}, DType::bf16);
  const Block own(2000);
  const auto memory = j.overlapped->reduce_memory(Communicator::reduce_memory_bytes(2000, n));
  const auto calls = [&] {
    finish(j);
    j.world.record_device_calls();
    std::uint64_t sum = 0;
    for (const auto& [key, stats] : j.log.entries())
      if (key.group == "overlapped" && key.bytes == whole.bytes() && key.dtype == "bf16") sum += stats.calls;
    return sum;
  };
  const std::uint64_t before = calls();
  GatherParts gather =
      j.overlapped->all_gather_parts({&whole, 1}, std::vector{own.tensor({1000}, DType::bf16)}, "fc1_fprop");
  for (int rank = 0; rank < n; ++rank) gather.await(rank);
  gather.finish();
  ScatterParts scatter = j.overlapped->reduce_scatter_parts({out, whole}, "fc2_fprop");
  for (int k = 1; k <= n; ++k) scatter.give(scatter.destination(k));
  EXPECT_THROW(scatter.give(0), base::Error);
  scatter.finish();
  EXPECT_EQ(calls(), before + 2);
}

INSTANTIATE_TEST_SUITE_P(, Parts, ::testing::Values(Gather::nccl, Gather::push),
                         [](const auto& test) { return std::string(nccl::name_of(test.param)); });

}  // namespace
}  // namespace shard8::comm::tests
