// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "tests/comm/buffer.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

namespace shard8::comm::tests {
namespace {

using Reduce = Communicator::Reduce;
using tensor::DType;

// Many collectives under way at once; every rank completes them in another order. Those of two
// stages need the others' help while these wait for something else.
void overlap(const Communicator& group, int salt) {
  constexpr int kEach = 3;
  const std::int64_t n = 40000;
  std::vector<Buffer> wholes, sums, outs, gradients, shards;
  for (int i = 0; i < kEach; ++i) {
    wholes.emplace_back(tensor::Shape{n * group.size()}, DType::bf16);
    shards.emplace_back(tensor::Shape{n}, DType::bf16).fill(group.rank(), salt + i);
    std::memcpy(wholes.back().tensor().slice(n * group.rank(), n).data, shards.back().bytes().data(),
                shards.back().bytes().size());
    sums.emplace_back(tensor::Shape{n}, DType::fp32).fill(group.rank(), salt + 10 + i);
    gradients.emplace_back(tensor::Shape{n * group.size()}, DType::fp32).fill(group.rank(), salt + 20 + i);
    outs.emplace_back(tensor::Shape{n}, DType::fp32);
  }
  std::vector<Request> requests;
  for (std::size_t i = 0; i < kEach; ++i) {
    requests.push_back(group.all_gather_in_place(std::vector{wholes[i].tensor()}));
    requests.push_back(group.all_reduce(std::vector{sums[i].tensor()}, Reduce::sum));
    requests.push_back(
        group.reduce_scatter(std::vector{Communicator::ReduceScatterItem{outs[i].tensor(), gradients[i].tensor()}}));
    group.progress();
  }
  const auto count = requests.size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t turn =
        (i * (group.rank() % 2 == 0 ? 1 : count - 1) + static_cast<std::size_t>(group.rank())) % count;
    requests[turn].wait();
    EXPECT_FALSE(requests[turn].active());
  }
  for (std::size_t i = 0; i < kEach; ++i) {
    EXPECT_EQ(wholes[i].bytes(), plain_all_gather(shards[i].bytes(), group.size()));
    for (std::int64_t e = 0; e < n; e += 97) {
      float sum = 0, gradient = 0;
      for (int r = 0; r < group.size(); ++r) {
        sum += value(r, e, salt + 10 + static_cast<int>(i));
        gradient += value(r, e + n * group.rank(), salt + 20 + static_cast<int>(i));
      }
      ASSERT_EQ(sums[i].get(e), sum);
      ASSERT_EQ(outs[i].get(e), gradient);
    }
  }
}

TEST(Requests, complete_in_any_order) {
  const Communicator group = world();
  for (int round = 0; round < 3; ++round) overlap(group, 100 * round);
}

TEST(Requests, complete_in_any_order_spinning) { overlap(world(nullptr, Waiting::spin), 7); }

TEST(Requests, of_two_groups_at_once) {
  const Communicator group = world();
  const Communicator half = group.split(group.rank() % 2, group.rank(), "half");
  Buffer a({50000}, DType::fp32), b({50000}, DType::fp32);
  a.fill(group.rank(), 1);
  b.fill(group.rank(), 2);
  Request first = group.all_reduce(std::vector{a.tensor()}, Reduce::sum);
  Request second = half.all_reduce(std::vector{b.tensor()}, Reduce::sum);
  if (group.rank() % 2 == 0) {
    first.wait();
    second.wait();
  } else {
    second.wait();
    first.wait();
  }
  for (std::int64_t i = 0; i < 50000; i += 31) {
    float all = 0, mine = 0;
    for (int r = 0; r < group.size(); ++r) {
      all += value(r, i, 1);
      if (r % 2 == group.rank() % 2) mine += value(r, i, 2);
    }
    ASSERT_EQ(a.get(i), all);
    ASSERT_EQ(b.get(i), mine);
  }
}

TEST(Requests, progress_alone_completes_them) {
  const Communicator group = world();
  Buffer a({50000}, DType::fp32);
  a.fill(group.rank());
  Request request = group.all_reduce(std::vector{a.tensor()}, Reduce::sum);
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!request.test() && std::chrono::steady_clock::now() < limit) group.progress();
  EXPECT_TRUE(request.test());
  request.wait();
  EXPECT_TRUE(same_everywhere(a.bytes(), group.size()));
}

TEST(Requests, an_empty_one_is_complete) {
  Request request;
  EXPECT_FALSE(request.active());
  EXPECT_TRUE(request.test());
  request.wait();
}

TEST(Requests, dropped_and_replaced_ones_are_waited_for) {
  profile::CollectiveLog log;
  const Communicator group = world(&log);
  Buffer a({30000}, DType::fp32), b({30000}, DType::fp32), c({30000}, DType::fp32);
  for (Buffer* x : {&a, &b, &c}) x->fill(group.rank());
  {
    Request request = group.all_reduce(std::vector{a.tensor()}, Reduce::sum);
    request = group.all_reduce(std::vector{b.tensor()}, Reduce::sum);
    Request moved = std::move(request);
    EXPECT_FALSE(request.active());
    static_cast<void>(group.all_reduce(std::vector{c.tensor()}, Reduce::sum));
  }
  EXPECT_EQ(a.bytes(), b.bytes());
  EXPECT_EQ(a.bytes(), c.bytes());
  EXPECT_TRUE(same_everywhere(a.bytes(), group.size()));
  if (group.size() > 1) {
    ASSERT_EQ(log.entries().size(), 1u);
    EXPECT_EQ(log.entries().begin()->second.calls, 3u);
  }
}

// What an exception leaves behind is leaked on purpose: the library may still write to it.
struct LeaksAllowed {
  LeaksAllowed() {
#if defined(__SANITIZE_ADDRESS__)
    __lsan_disable();
#endif
  }
  ~LeaksAllowed() {
#if defined(__SANITIZE_ADDRESS__)
    __lsan_enable();
#endif
  }
};

TEST(Requests, one_that_an_exception_leaves_behind_does_not_block) {
  const LeaksAllowed leaks;
  const Communicator group = world();
  if (group.size() != 2) return;  // shown on two ranks: it takes two seconds
  Buffer a({50000}, DType::fp32);
  a.fill(group.rank());
  const std::vector tensors{a.tensor()};
  if (group.rank() == 0) {
    const auto begin = std::chrono::steady_clock::now();
    try {
      const Request request = group.all_reduce(tensors, Reduce::sum);
      throw std::runtime_error("rank 0 gives up");
    } catch (const std::runtime_error&) {
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

}  // namespace
}  // namespace shard8::comm::tests
