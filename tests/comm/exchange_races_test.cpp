// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// Memory that ranks share: it is had and given back, and no rank overwrites what another one reads. Exchanges of ranks
// that are late, by all routes.

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "comm/host_waits.hpp"
#include "comm/mpi/host_parts.hpp"
#include "tests/comm/buffer.hpp"

namespace shard8::comm::tests {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using tensor::DType;
using tensor::Tensor;

/// Memory whose slots are overwritten as soon as they may be; null where there is none.
std::shared_ptr<PartsMemory> poisoned_memory(const Communicator& group, std::size_t bytes) {
  auto memory = group.parts_memory(bytes, bytes);
  if (memory != nullptr) dynamic_cast<SharedWindow&>(*memory).poison();
  return memory;
}

TEST(Numbers, are_compared_cyclically) {
  EXPECT_TRUE(reached(5, 5));
  EXPECT_TRUE(reached(6, 5));
  EXPECT_FALSE(reached(4, 5));
  EXPECT_TRUE(reached(0, static_cast<std::uint32_t>(-1)));  // the credit of the first exchanges
  EXPECT_TRUE(reached(3, static_cast<std::uint32_t>(-3)));
  EXPECT_FALSE(reached(static_cast<std::uint32_t>(-3), 3));
}

TEST(PartsMemory, is_had_and_freed_again_and_again) {
  const Communicator group = world();
  for (int i = 0; i < 10; ++i) {
    std::string problem = "?";
    const auto memory = group.parts_memory(1000, static_cast<std::size_t>(i) * 1000, &problem);
    if (group.size() == 1) {
      EXPECT_EQ(memory, nullptr);
      EXPECT_EQ(problem, "group 'world' has one rank");
      continue;
    }
    ASSERT_NE(memory, nullptr) << problem;
    EXPECT_EQ(problem, "");
    EXPECT_EQ(memory->bytes(),
              Communicator::parts_memory_bytes(1000, static_cast<std::size_t>(i) * 1000, group.size()));
    Buffer own({250}, DType::fp32), whole({250 * group.size()}, DType::fp32);
    own.fill(group.rank(), i);
    GatherParts parts = group.all_gather_parts(std::vector{whole.tensor()}, std::vector{own.tensor()}, "fc1_fprop");
    const int peer = parts.arrival(1);
    parts.await(peer);
    Buffer expected({250}, DType::fp32);
    expected.fill(peer, i);
    EXPECT_EQ(std::memcmp(parts.part(0, peer).data, expected.bytes().data(), 1000), 0);
  }
}

TEST(PartsMemory, that_cannot_be_had_is_a_reason_on_every_rank) {
  const Communicator group = world();
  std::string problem;
  const auto memory = group.parts_memory(std::size_t{1} << 50, 0, &problem);
  EXPECT_EQ(memory, nullptr);
  EXPECT_NE(problem, "");
  Buffer own({250}, DType::fp32), whole({250 * group.size()}, DType::fp32);
  own.fill(group.rank());
  group.all_gather_parts(std::vector{whole.tensor()}, std::vector{own.tensor()}, "fc1_fprop").finish();
  EXPECT_EQ(whole.bytes(), plain_all_gather(own.bytes(), group.size()));
}

TEST(PartsMemory, belongs_to_one_group) {
  const Communicator group = world();
  const Communicator half = group.split(group.rank() % 2, group.rank(), "half");
  const auto memory = poisoned_memory(half, 4096);
  EXPECT_EQ(memory == nullptr, half.size() == 1);
  for (const Communicator* of : {&group, &half}) {
    Buffer own({250}, DType::fp32), whole({250 * of->size()}, DType::fp32), expected({250}, DType::fp32);
    own.fill(group.rank());
    GatherParts parts = of->all_gather_parts(std::vector{whole.tensor()}, std::vector{own.tensor()}, "fc1_fprop");
    for (int rank = 0; rank < of->size(); ++rank) {
      parts.await(rank);
      expected.fill(of == &group ? rank : 2 * rank + group.rank() % 2);
      EXPECT_EQ(std::memcmp(parts.part(0, rank).data, expected.bytes().data(), 1000), 0);
    }
  }
}

// Rank 0 begins the exchange after next, and would write now, while the others still read.
TEST(Credits, keep_what_a_slow_rank_reads) {
  const Communicator group = world();
  const auto memory = poisoned_memory(group, 4096);
  if (memory == nullptr) return;
  constexpr std::int64_t kRows = 1000;
  Buffer own({kRows}, DType::fp32), expected({kRows}, DType::fp32);
  const Tensor whole{nullptr, {kRows * group.size()}, DType::fp32};
  for (int round = 0; round < 5; ++round) {
    own.fill(group.rank(), round);
    expected.fill(0, round);
    const auto gather = [&] { return group.all_gather_parts({&whole, 1}, std::vector{own.tensor()}, "fc1_fprop"); };
    GatherParts first = gather(), second = gather();
    for (GatherParts* parts : {&first, &second})
      for (int rank = 0; rank < group.size(); ++rank) parts->await(rank);
    Buffer next({kRows}, DType::fp32);
    GatherParts third;
    if (group.rank() == 0) {
      first.finish();
      third = group.all_gather_parts({&whole, 1}, std::vector{next.tensor()}, "fc1_fprop");
      for (int i = 0; i < 100; ++i) group.progress();
    }
    group.barrier();
    EXPECT_EQ(std::memcmp((group.rank() == 0 ? own.tensor() : first.part(0, 0)).data, expected.bytes().data(), 4000),
              0);
    group.barrier();
    if (group.rank() != 0) {
      first.finish();
      third = group.all_gather_parts({&whole, 1}, std::vector{next.tensor()}, "fc1_fprop");
    }
    third.await(0);
    EXPECT_EQ(std::memcmp(third.part(0, 0).data, next.bytes().data(), 4000), 0);
  }
}

/// Exchanges of all kinds, with ranks that dawdle at random, and other collectives between.
void race(const Communicator& group, bool window, int exchanges, Route route = Route::direct) {
  constexpr std::int64_t kRows = 333;
  const auto memory = window ? poisoned_memory(group, 4096 * static_cast<std::size_t>(group.size())) : nullptr;
  std::mt19937 random(static_cast<unsigned>(group.rank()));
  const auto dawdle = [&] {
    if (random() % 16 == 0) std::this_thread::sleep_for(microseconds(random() % 400));
  };
  const int n = group.size();
  Buffer own({kRows}, DType::fp32), expected({kRows}, DType::fp32), whole({kRows * n}, DType::fp32),
      partial_sums({kRows * n}, DType::fp32), out({kRows}, DType::fp32), more({100}, DType::fp32);
  for (int i = 0; i < exchanges; ++i) {
    own.fill(group.rank(), i);
    more.fill(group.rank(), i);
    dawdle();
    GatherParts gather =
        group.all_gather_parts(std::vector{whole.tensor()}, std::vector{own.tensor()}, "fc1_fprop", route);
    Request request;
    if (i % 7 == 0) request = group.all_reduce(std::vector{more.tensor()}, Communicator::Reduce::sum);
    ScatterParts scatter = group.reduce_scatter_parts({out.tensor(), partial_sums.tensor()}, "fc2_fprop", route);
    const Tensor sums = scatter.whole();
    for (int k = 0; k < n; ++k) {
      const int rank = gather.arrival(k);
      dawdle();
      gather.await(rank);
      expected.fill(rank, i);
      dawdle();
      ASSERT_EQ(std::memcmp(gather.part(0, rank).data, expected.bytes().data(), expected.bytes().size()), 0)
          << "exchange " << i << ", rows of rank " << rank;
    }
    gather.finish();
    for (int k = 1; k <= n; ++k) {
      const int rank = scatter.destination(k);
      auto* const rows = sums.slice(rank * kRows, kRows).as<float>();
      for (std::int64_t e = 0; e < kRows; ++e) rows[e] = value(group.rank(), e, i + rank);
      dawdle();
      scatter.give(rank);
    }
    dawdle();
    scatter.finish();
    for (std::int64_t e = 0; e < kRows; ++e) {
      const auto partial_sum = [&](int r) { return value(r, e, i + group.rank()); };
      const int last = group.rank() + n;
      float sum = route == Route::ring ? partial_sum((last - 1) % n) : partial_sum(0);
      for (int k = 1; k < n; ++k) sum += route == Route::ring ? partial_sum((last - 1 - k) % n) : partial_sum(k);
      ASSERT_EQ(out.get(e), sum) << "exchange " << i << ", element " << e;
    }
  }
}

TEST(Races, of_dawdling_ranks_in_shared_memory) { race(world(), true, 1000); }
TEST(Races, of_dawdling_ranks_by_messages) { race(world(), false, 200); }
TEST(Races, of_spinning_ranks) { race(world(nullptr, Waiting::spin), true, world().size() > 2 ? 20 : 100); }

TEST(Races, of_dawdling_ranks_round_a_ring) { race(world(), false, 200, Route::ring); }
TEST(Races, of_spinning_ranks_round_a_ring) {
  race(world(nullptr, Waiting::spin), false, world().size() > 2 ? 20 : 100, Route::ring);
}

/// What a watchdog of rank 0 says while another rank comes late.
std::string said_of(const std::function<void(const Communicator&)>& on_rank_0,
                    const std::function<void(const Communicator&)>& on_others, bool window) {
  HostWaits waits;
  waits.set_limits({milliseconds(200), milliseconds(200)});
  const Communicator group(MPI_COMM_WORLD, "tensor", Waiting::yield, nullptr, &waits);
  const auto memory = window ? group.parts_memory(4096, 4096) : nullptr;
  std::mutex mutex;
  std::string said;
  {
    const Watchdog dog(
        milliseconds(20), [&] { return waits.overdue(HostWaits::Clock::now()); },
        [&](const std::string& text) {
          const std::lock_guard lock(mutex);
          said = text;
        });
    (group.rank() == 0 ? on_rank_0 : on_others)(group);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  return said;
}

TEST(Watch, names_the_product_and_the_rank_that_is_waited_for) {
  const Communicator all = world();
  if (all.size() == 1 || all.size() == 3) return;  // shown on two ranks and on four
  Buffer own({10}, DType::fp32), whole({10 * all.size()}, DType::fp32), out({10}, DType::fp32);
  const auto late = [&](const Communicator& group) {
    if (group.rank() == 1) std::this_thread::sleep_for(milliseconds(500));
  };
  const auto gather = [&](const Communicator& group) {
    GatherParts parts = group.all_gather_parts(std::vector{whole.tensor()}, std::vector{own.tensor()}, "fc1_fprop");
    parts.await(1);
  };
  const auto scatter = [&](const Communicator& group) {
    ScatterParts parts = group.reduce_scatter_parts({out.tensor(), whole.tensor()}, "fc2_fprop");
    static_cast<void>(parts.whole());
    if (group.rank() != 0) late(group);
    for (int k = 1; k <= group.size(); ++k) parts.give(parts.destination(k));
    parts.finish();
  };
  for (const bool window : {false, true}) {
    const std::string of_gather = said_of(
        gather, [&](const auto& group) { late(group), gather(group); }, window);
    const std::string of_scatter = said_of(scatter, scatter, window);
    if (all.rank() != 0) continue;
    const std::string place = " in group 'tensor' on its rank 0 of " + std::to_string(all.size());
    EXPECT_EQ(of_gather.find("all_gather for fc1_fprop" + place + ", call 1, "), 0u) << of_gather;
    EXPECT_NE(of_gather.find("for rank 1 of the group;"), std::string::npos) << of_gather;
    EXPECT_EQ(of_scatter.find("reduce_scatter for fc2_fprop" + place + ", call 1, "), 0u) << of_scatter;
    EXPECT_NE(of_scatter.find("for rank 1 of the group;"), std::string::npos) << of_scatter;
  }
}

TEST(Watch, names_the_product_of_an_exchange_without_parts) {
  const Communicator all = world();
  if (all.size() == 1 || all.size() == 3) return;  // shown on two ranks and on four
  Buffer whole({10 * all.size()}, DType::fp32), out({10}, DType::fp32);
  const auto late = [&](const Communicator& group) {
    if (group.rank() == 1) std::this_thread::sleep_for(milliseconds(500));
  };
  const auto gather = [&](const Communicator& group) {
    late(group);
    group.all_gather_in_place(std::array{whole.tensor()}, {}, "fc1_dgrad").wait();
  };
  const auto scatter = [&](const Communicator& group) {
    late(group);
    group.reduce_scatter(std::array{Communicator::ReduceScatterItem{out.tensor(), whole.tensor()}}, "fc2_fprop").wait();
  };
  const std::string of_gather = said_of(gather, gather, false), of_scatter = said_of(scatter, scatter, false);
  if (all.rank() != 0) return;
  const std::string place = " in group 'tensor' on its rank 0 of " + std::to_string(all.size()) + ", call 1, ";
  EXPECT_EQ(of_gather.find("all_gather for fc1_dgrad" + place), 0u) << of_gather;
  EXPECT_NE(of_gather.find("for rank 1 of the group;"), std::string::npos) << of_gather;
  EXPECT_EQ(of_scatter.find("reduce_scatter for fc2_fprop" + place), 0u) << of_scatter;
  EXPECT_NE(of_scatter.find("for rank 1 of the group;"), std::string::npos) << of_scatter;
}

// Rank 0 waits for its neighbour, which waits for the rank that is late.
TEST(Watch, names_the_neighbour_and_the_rows_that_it_passes_on) {
  const Communicator all = world();
  if (all.size() == 1) return;
  const int n = all.size(), late = n / 2;
  Buffer own({10}, DType::fp32), whole({10 * n}, DType::fp32), out({10}, DType::fp32);
  const auto sleep = [&](const Communicator& group) {
    if (group.rank() == late) std::this_thread::sleep_for(milliseconds(500));
  };
  const auto gather = [&](const Communicator& group) {
    sleep(group);
    GatherParts parts =
        group.all_gather_parts(std::vector{whole.tensor()}, std::vector{own.tensor()}, "fc1_fprop", Route::ring);
    parts.finish();
  };
  const auto scatter = [&](const Communicator& group) {
    sleep(group);
    ScatterParts parts = group.reduce_scatter_parts({out.tensor(), whole.tensor()}, "fc2_fprop", Route::ring);
    for (int k = 1; k <= n; ++k) parts.give(parts.destination(k));
    parts.finish();
  };
  const std::string of_gather = said_of(gather, gather, false), of_scatter = said_of(scatter, scatter, false);
  if (all.rank() != 0) return;
  const std::string place = " in group 'tensor' on its rank 0 of " + std::to_string(n) + ", call 1, ";
  const auto waits_for = [](int rank, int rows) {
    return "for rank " + std::to_string(rank) + " of the group, for the rows of rank " + std::to_string(rows) + ";";
  };
  EXPECT_EQ(of_gather.find("all_gather for fc1_fprop" + place), 0u) << of_gather;
  EXPECT_NE(of_gather.find(waits_for(n - 1, late)), std::string::npos) << of_gather;
  EXPECT_EQ(of_scatter.find("reduce_scatter for fc2_fprop" + place), 0u) << of_scatter;
  EXPECT_NE(of_scatter.find(waits_for(1, (late + 1) % n)), std::string::npos) << of_scatter;
}

TEST(Watch, an_exchange_that_an_exception_leaves_behind_does_not_block) {
  const Communicator group = world();
  const auto memory = group.parts_memory(4096, 4096);
  Buffer own({10}, DType::fp32), whole({10 * group.size()}, DType::fp32);
  if (memory != nullptr && group.rank() == 0) {
    try {
      GatherParts parts = group.all_gather_parts(std::vector{whole.tensor()}, std::vector{own.tensor()}, "fc1_fprop");
      ScatterParts scatter = group.reduce_scatter_parts({own.tensor(), whole.tensor()}, "fc2_fprop");
      throw std::runtime_error("rank 0 gives up");
    } catch (const std::runtime_error&) {
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

}  // namespace
}  // namespace shard8::comm::tests
