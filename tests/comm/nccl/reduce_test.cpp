// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/error.hpp"
#include "comm/mpi/all_reduce.hpp"
#include "tests/comm/nccl/job.hpp"

namespace shard8::comm::tests {
namespace {

using Reduce = Communicator::Reduce;
using tensor::DType;
using tensor::Tensor;

// value() as the dtype has it.
double input(int rank, std::int64_t i, int salt, DType dtype) {
  const float x = value(rank, i, salt);
  return dtype == DType::bf16 ? static_cast<float>(tensor::BFloat16(x)) : x;
}

// Of a sum of n values up to 2 in any order: each of n − 1 additions rounds a partial sum of at most 2n.
double tolerance(int n, DType dtype) {
  const double half_ulp = dtype == DType::bf16 ? 0x1p-9 : 0x1p-24;
  return (n - 1) * 2.0 * n * half_ulp * 1.01;
}

void expect_sums(const Buffer& sums, int n, std::int64_t first, int salt) {
  const DType dtype = sums.dtype();
  for (std::int64_t i = 0; i < sums.count(); ++i) {
    double expected = 0;
    for (int r = 0; r < n; ++r) expected += input(r, first + i, salt, dtype);
    ASSERT_NEAR(sums.get(i), expected, tolerance(n, dtype)) << name_of(dtype) << " element " << i;
  }
}

std::vector<const Communicator*> groups(const Job& j) { return {&*j.overlapped, &j.world}; }

TEST(ReduceScatter, in_place_and_out_of_place_at_once) {
  Job& j = job();
  const int n = j.world.size(), rank = j.world.rank();
  for (const Communicator* group : groups(j)) {
    for (const DType dtype : {DType::fp32, DType::bf16}) {
      const std::int64_t rows = 1003;
      const Tensor a = j.allocate({rows * n, 7}, dtype), b = j.allocate({n * 2}, dtype), out = j.allocate({2}, dtype);
      Buffer host_a(a.shape, dtype), host_b(b.shape, dtype);
      host_a.fill(rank, 1);
      host_b.fill(rank, 2);
      upload(j, a, host_a.bytes());
      upload(j, b, host_b.bytes());
      const Tensor empty = j.allocate({0}, dtype);
      group
          ->reduce_scatter(
              std::vector<Communicator::ReduceScatterItem>{{a.slice(rank * rows, rows), a}, {empty, empty}, {out, b}})
          .wait();
      expect_sums(download_buffer(j, a.slice(rank * rows, rows)), n, rank * rows * 7, 1);
      expect_sums(download_buffer(j, out), n, rank * 2, 2);
    }
  }
}

/// What hosts get: in rank order, the addend last, with sums in fp32.
std::vector<std::byte> host_sums(const std::vector<Buffer>& of_ranks, std::int64_t first, std::int64_t count,
                                 const Buffer* addend = nullptr) {
  Buffer sums({count}, of_ranks.front().dtype());
  for (std::int64_t i = 0; i < count; ++i) {
    float total = static_cast<float>(of_ranks.front().get(first + i));
    for (std::size_t r = 1; r < of_ranks.size(); ++r) total += static_cast<float>(of_ranks[r].get(first + i));
    if (addend != nullptr) total += static_cast<float>(addend->get(i));
    sums.set(i, total);
  }
  return sums.bytes();
}

// Vectors and elements; shards that end between them; in place; in one turn, and in several.
TEST(ReduceScatter, of_pushed_parts_gives_the_bytes_of_hosts) {
  Job& j = job();
  const int n = j.world.size(), rank = j.world.rank();
  constexpr std::size_t kBytes = 100000;
  const auto memory = j.overlapped->reduce_memory(kBytes);
  if (memory == nullptr) GTEST_SKIP() << "ranks cannot push to each other, or there is one";
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    for (const std::int64_t rows : {1, 3, 16, 1003, 4096, 70000}) {
      for (const bool in_place : {false, true}) {
        const Tensor a = j.allocate({rows * n, 3}, dtype), b = j.allocate({n * 8}, dtype),
                     empty = j.allocate({0}, dtype);
        const Tensor of_a = in_place ? a.slice(rank * rows, rows) : j.allocate({rows, 3}, dtype);
        const Tensor of_b = j.allocate({8}, dtype);
        std::vector<Buffer> all_a, all_b;
        for (int r = 0; r < n; ++r) {
          all_a.emplace_back(a.shape, dtype).fill(r, 1);
          all_b.emplace_back(b.shape, dtype).fill(r, 2);
        }
        upload(j, a, all_a[static_cast<std::size_t>(rank)].bytes());
        upload(j, b, all_b[static_cast<std::size_t>(rank)].bytes());
        j.overlapped->reduce_scatter(std::vector<Communicator::ReduceScatterItem>{{of_a, a}, {empty, empty}, {of_b, b}})
            .wait();
        EXPECT_EQ(download(j, of_a), host_sums(all_a, rank * rows * 3, rows * 3))
            << rows << " rows of " << name_of(dtype);
        EXPECT_EQ(download(j, of_b), host_sums(all_b, rank * 8, 8));
      }
    }
  }
}

// On the compute stream, each rank reading its rows of all others: with and without an addend, which may be out,
// and again and again in the same memory, which a rank that is ahead must not overwrite.
TEST(ReduceScatter, of_what_peers_have_gives_the_bytes_of_hosts) {
  Job& j = job(nccl::Gather::push);
  const int n = j.world.size(), rank = j.world.rank();
  Pool pool(j.world);
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    for (const std::int64_t rows : {1, 16, 1003, 70000}) {
      for (const bool adds : {false, true}) {
        if (adds && n == 1) continue;
        pool.used = 0;
        const Tensor a = pool.allocate({rows * n, 3}, dtype);
        const Block outside(a.bytes()), more(a.bytes());
        const Tensor out = outside.tensor({rows, 3}, dtype);
        const Tensor addend = adds ? (rows == 16 ? out : more.tensor({rows, 3}, dtype)) : Tensor{};
        Buffer own_addend({rows, 3}, dtype);
        own_addend.fill(rank, 77);
        for (int turn = 0; turn < 3; ++turn) {
          std::vector<Buffer> all;
          for (int r = 0; r < n; ++r) all.emplace_back(a.shape, dtype).fill(r, turn);
          if (adds) upload(j, addend, own_addend.bytes());
          upload(j, a, all[static_cast<std::size_t>(rank)].bytes());
          j.world.reduce_scatter(out, a, addend);
          if (rank == 0) SHARD8_CUDA_CHECK(cudaMemsetAsync(a.data, 0xff, a.bytes(), j.compute));
          EXPECT_EQ(download(j, out), host_sums(all, rank * rows * 3, rows * 3, adds ? &own_addend : nullptr))
              << rows << " rows of " << name_of(dtype) << (adds ? " and an addend" : "");
        }
      }
    }
  }
}

TEST(ReduceScatter, of_pushed_parts_as_a_tree_gives_the_bytes_of_hosts) {
  Job& j = job();
  const int n = j.world.size(), rank = j.world.rank();
  const Communicator group = j.world.split(0, rank, "tree", {.reduce = true}, SumOrder::tree);
  const auto memory = group.reduce_memory(100000);
  if (memory == nullptr) GTEST_SKIP() << "ranks cannot push to each other, or there is one";
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    const std::int64_t rows = 70001;  // in several turns
    const Tensor whole = j.allocate({rows * n}, dtype), out = j.allocate({rows}, dtype);
    std::vector<Buffer> all;
    std::vector<const std::byte*> sources;
    for (int r = 0; r < n; ++r) all.emplace_back(whole.shape, dtype).fill(r, 1);
    for (const Buffer& b : all) sources.push_back(b.bytes().data() + tensor::bytes_of(dtype, rank * rows));
    Buffer sum({rows}, dtype);
    sum_in_order(sum.bytes().data(), sources, rows, dtype, SumOrder::tree);
    upload(j, whole, all[static_cast<std::size_t>(rank)].bytes());
    group.reduce_scatter(out, whole);
    EXPECT_EQ(download(j, out), sum.bytes()) << name_of(dtype);
  }
}

TEST(ReduceScatter, with_an_addend_of_another_shape_is_refused) {
  Job& j = job();
  const int n = j.world.size();
  const Tensor whole = j.allocate({4 * n}, DType::fp32), out = j.allocate({4}, DType::fp32),
               addend = j.allocate({5}, DType::fp32);
  EXPECT_THROW(j.world.reduce_scatter(out, whole, addend), base::Error);
}

// By NCCL the sum is rounded before the addend is added.
TEST(ReduceScatter, by_nccl_adds_the_addend_last) {
  Job& j = job();
  const int n = j.world.size(), rank = j.world.rank();
  if (n == 1) return;
  const std::int64_t rows = 1003;
  const Tensor whole = j.allocate({rows * n}, DType::fp32), out = j.allocate({rows}, DType::fp32);
  Buffer mine(whole.shape, DType::fp32), addend(out.shape, DType::fp32);
  mine.fill(rank, 3);
  addend.fill(rank, 4);
  upload(j, whole, mine.bytes());
  upload(j, out, addend.bytes());
  j.overlapped->reduce_scatter(std::vector<Communicator::ReduceScatterItem>{{out, whole, out}}).wait();
  const Buffer sums = download_buffer(j, out);
  for (std::int64_t i = 0; i < rows; ++i) {
    double expected = addend.get(i);
    for (int r = 0; r < n; ++r) expected += input(r, rank * rows + i, 3, DType::fp32);
    ASSERT_NEAR(sums.get(i), expected, tolerance(n + 1, DType::fp32)) << i;
  }
}

TEST(AllReduce, of_several_tensors) {
  Job& j = job();
  const int n = j.world.size(), rank = j.world.rank();
  for (const Communicator* group : groups(j)) {
    const Tensor large = j.allocate({300001}, DType::fp32), small = j.allocate({3}, DType::fp32),
                 half = j.allocate({5000}, DType::bf16);
    std::vector<Buffer> host;
    int salt = 0;
    for (const Tensor& t : {large, small, half}) {
      host.emplace_back(t.shape, t.dtype).fill(rank, ++salt);
      upload(j, t, host.back().bytes());
    }
    group->all_reduce(std::vector{large, small, half}, Reduce::sum).wait();
    salt = 0;
    for (const Tensor& t : {large, small, half}) {
      const Buffer sums = download_buffer(j, t);
      expect_sums(sums, n, 0, ++salt);
      EXPECT_TRUE(same_everywhere(sums.bytes(), n));
    }
  }
}

// In the least memory, with many turns, and in more. Of two ranks NCCL's sum is the tree.
TEST(AllReduce, as_a_tree_gives_the_bytes_of_hosts) {
  Job& j = job();
  const int n = j.world.size(), rank = j.world.rank();
  const Communicator group = j.world.split(0, rank, "tree", {.reduce = true}, SumOrder::tree);
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1} << 20}) {
    const auto memory = group.all_reduce_memory(Communicator::all_reduce_memory_bytes(bytes, n));
    EXPECT_EQ(memory != nullptr, n > 2);
    if (memory == nullptr) continue;
    for (int call = 0; call < 2; ++call) {
      const Tensor large = j.allocate({400003}, DType::fp32), small = j.allocate({3}, DType::fp32),
                   empty = j.allocate({0}, DType::fp32), half = j.allocate({5001}, DType::bf16);
      std::vector<std::vector<std::byte>> expected;
      std::vector<Buffer> mine;
      const std::vector<Tensor> items{large, small, empty, half};
      for (const Tensor& t : items) {
        std::vector<Buffer> all;
        std::vector<const std::byte*> sources;
        for (int r = 0; r < n; ++r) all.emplace_back(t.shape, t.dtype).fill(r, call);
        for (const Buffer& b : all) sources.push_back(b.bytes().data());
        mine.push_back(all[static_cast<std::size_t>(rank)]);
        Buffer sum(t.shape, t.dtype);
        sum_in_order(sum.bytes().data(), sources, t.count(), t.dtype, SumOrder::tree);
        expected.push_back(sum.bytes());
      }
      for (std::size_t i = 0; i < items.size(); ++i) upload(j, items[i], mine[i].bytes());
      group.all_reduce(items, Reduce::sum).wait();
      for (std::size_t i = 0; i < items.size(); ++i) EXPECT_EQ(download(j, items[i]), expected[i]) << "tensor " << i;
    }
  }
}

TEST(AllReduce, gives_the_same_bits_again) {
  Job& j = job();
  const Tensor t = j.allocate({1000003}, DType::fp32);
  Buffer host(t.shape, t.dtype);
  host.fill(j.world.rank(), 5);
  std::vector<std::byte> first;
  for (int i = 0; i < 5; ++i) {
    upload(j, t, host.bytes());
    j.overlapped->all_reduce({&t, 1}, Reduce::sum).wait();
    const auto bytes = download(j, t);
    if (i == 0) first = bytes;
    EXPECT_EQ(bytes, first);
  }
}

TEST(AllReduce, maximum_of_integers_is_signed_and_of_floats) {
  Job& j = job();
  const int n = j.world.size(), rank = j.world.rank();
  for (const Communicator* group : groups(j)) {
    const Tensor integers = j.allocate({1000}, DType::i32), floats = j.allocate({1000}, DType::fp32);
    std::vector<std::int32_t> mine(1000);
    for (int i = 0; i < 1000; ++i) mine[static_cast<std::size_t>(i)] = i * (rank % 2 == 0 ? 1 : -1) - 500 + rank;
    Buffer host({1000}, DType::fp32);
    host.fill(rank, 3);
    SHARD8_CUDA_CHECK(cudaMemcpyAsync(integers.data, mine.data(), 4000, cudaMemcpyDefault, j.compute));
    upload(j, floats, host.bytes());
    group->all_reduce({&integers, 1}, Reduce::max).wait();
    group->all_reduce({&floats, 1}, Reduce::max).wait();
    const auto bytes = download(j, integers);
    const Buffer result = download_buffer(j, floats);
    for (int i = 0; i < 1000; ++i) {
      std::int32_t largest = std::numeric_limits<std::int32_t>::min(), got = 0;
      float largest_float = -HUGE_VALF;
      for (int r = 0; r < n; ++r) {
        largest = std::max(largest, i * (r % 2 == 0 ? 1 : -1) - 500 + r);
        largest_float = std::max(largest_float, value(r, i, 3));
      }
      std::memcpy(&got, bytes.data() + 4 * i, 4);
      ASSERT_EQ(got, largest) << i;
      ASSERT_EQ(result.get(i), largest_float) << i;
    }
  }
}

TEST(Blocking, gather_and_scatter_of_tokens) {
  Job& j = job();
  const int n = j.world.size(), rank = j.world.rank();
  for (const Communicator* group : groups(j)) {
    const Tensor in = j.allocate({129, 64}, DType::bf16), out = j.allocate({129 * n, 64}, DType::bf16),
                 sum = j.allocate({129, 64}, DType::bf16);
    Buffer mine(in.shape, in.dtype);
    mine.fill(rank, 7);
    upload(j, in, mine.bytes());
    group->all_gather(out, in);
    EXPECT_EQ(download(j, out), plain_all_gather(mine.bytes(), n));
    group->reduce_scatter(sum, out);  // n times each rank's rows: exact for n a power of two
    const Buffer sums = download_buffer(j, sum);
    for (std::int64_t i = 0; i < sums.count(); ++i)
      ASSERT_NEAR(sums.get(i), n * input(rank, i, 7, DType::bf16), tolerance(n, DType::bf16));
  }
}

TEST(Lanes, must_be_named) {
  Job& j = job();
  if (j.world.size() == 1) return;  // nothing is ever under way
  const Communicator none = j.world.split(0, j.world.rank(), "none");
  const Tensor t = j.allocate({16}, DType::fp32);
  EXPECT_THROW(static_cast<void>(none.all_reduce({&t, 1}, Reduce::sum)), base::Error);
  EXPECT_EQ(none.all_gather(std::vector<double>{1.0}).size(), static_cast<std::size_t>(j.world.size()));
}

TEST(Log, measures_on_the_device) {
  Job& j = job();
  const int n = j.world.size(), rank = j.world.rank();
  const std::int64_t rows = 4 << 20;
  const Tensor whole = j.allocate({rows * n}, DType::fp32);
  SHARD8_CUDA_CHECK(cudaMemsetAsync(whole.data, 0, whole.bytes(), j.compute));
  const Block busy(std::size_t{256} << 20);
  const auto gather = [&] { return j.overlapped->all_gather_in_place({&whole, 1}); };
  gather().wait();
  j.world.barrier();
  finish(j);
  j.world.record_device_calls();
  j.log.clear();

  gather().wait();  // at once
  finish(j);
  j.world.record_device_calls();
  if (n == 1) {
    EXPECT_TRUE(j.log.entries().empty());
    return;
  }
  const profile::CollectiveKey key{profile::Collective::all_gather, "overlapped", n, "fp32", whole.bytes()};
  const auto at_once = j.log.entries().at(key);
  EXPECT_EQ(at_once.calls, 1u);
  EXPECT_GT(at_once.total_s, 0);
  EXPECT_GT(at_once.exposed_s, 0.2 * at_once.total_s);
  EXPECT_LT(at_once.exposed_s, 1.5 * at_once.total_s + 1e-4);
  EXPECT_LT(at_once.total_s, 1);

  j.log.clear();
  Request request = gather();
  keep_busy(j, busy, std::size_t{256} << 20, 400);  // tens of milliseconds
  request.wait();
  j.world.record_device_calls();
  EXPECT_TRUE(j.log.entries().empty()) << "the compute stream has not come to wait for it";
  finish(j);
  j.world.record_device_calls();
  EXPECT_EQ(j.log.entries().at(key).exposed_s, 0);  // it was complete

  j.log.clear();
  j.log.set_measuring(false);
  gather().wait();
  j.log.set_measuring(true);
  finish(j);
  j.world.record_device_calls();
  EXPECT_TRUE(j.log.entries().empty());

  const Tensor t = whole.slice(rank * rows, 1000);
  j.world.all_reduce({&t, 1}, Reduce::sum).wait();  // on the compute stream: all of it is exposed
  finish(j);
  j.world.record_device_calls();
  const auto& stats = j.log.entries().at({profile::Collective::all_reduce, "world", n, "fp32", 4000});
  EXPECT_GT(stats.total_s, 0);
  EXPECT_EQ(stats.total_s, stats.exposed_s);
  j.log.clear();
}

TEST(Requests, are_tested_dropped_and_many) {
  Job& j = job();
  const Tensor t = j.allocate({1000}, DType::fp32);
  SHARD8_CUDA_CHECK(cudaMemsetAsync(t.data, 0, t.bytes(), j.compute));
  Request request = j.overlapped->all_reduce({&t, 1}, Reduce::sum);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!request.test() && std::chrono::steady_clock::now() < until) {
  }
  EXPECT_TRUE(request.test());
  request.wait();
  EXPECT_FALSE(request.active());
  static_cast<void>(j.overlapped->all_reduce({&t, 1}, Reduce::sum));
  // More than are kept under way, none waited for by a host.
  for (int i = 0; i < 2000; ++i) j.overlapped->all_reduce({&t, 1}, Reduce::max).wait();
  finish(j);
  j.world.record_device_calls();
  if (j.world.size() > 1) {
    std::uint64_t calls = 0;
    for (const auto& [key, stats] : j.log.entries()) calls += stats.calls;
    EXPECT_GE(calls, 2002u);
  }
  j.log.clear();
}

}  // namespace
}  // namespace shard8::comm::tests
