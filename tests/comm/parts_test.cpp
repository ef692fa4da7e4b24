// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "comm/environment.hpp"
#include "comm/host_waits.hpp"
#include "comm/mesh.hpp"
#include "comm/mpi/all_reduce.hpp"
#include "comm/mpi/group.hpp"
#include "comm/node.hpp"

namespace shard8::comm::tests {
namespace {

TEST(Waiting, more_ranks_than_cores_yield) {
  EXPECT_EQ(choose_waiting(4, 2), Waiting::yield);
  EXPECT_EQ(choose_waiting(2, 2), Waiting::spin);
  EXPECT_EQ(choose_waiting(1, 64), Waiting::spin);
  EXPECT_EQ(name_of(Waiting::yield), "yield");
  EXPECT_EQ(name_of(Waiting::spin), "spin");
}

TEST(Waiting, pause_yields_first_and_sleeps_later) {
  Pause pause(Waiting::yield);
  const auto begin = std::chrono::steady_clock::now();
  int turns = 0;
  for (; std::chrono::steady_clock::now() - begin < 10 * Pause::kYieldFor; ++turns) pause();
  std::chrono::steady_clock::duration shortest = std::chrono::seconds(1);
  for (int i = 0; i < 20; ++i) {
    const auto before = std::chrono::steady_clock::now();
    pause();
    shortest = std::min(shortest, std::chrono::steady_clock::now() - before);
  }
  EXPECT_GE(shortest, Pause::kSleep);
}

TEST(Sums, of_bf16_round_once) {
  // 1 + 2^-8 + 2^-8: rounding after each addition would lose both halves of the last bit.
  const auto bf = [](float x) { return tensor::BFloat16(x); };
  const std::vector<tensor::BFloat16> a{bf(1)}, b{bf(0x1p-8f)}, c{bf(0x1p-8f)};
  const std::vector<const std::byte*> sources = {reinterpret_cast<const std::byte*>(a.data()),
                                                 reinterpret_cast<const std::byte*>(b.data()),
                                                 reinterpret_cast<const std::byte*>(c.data())};
  tensor::BFloat16 out;
  sum_in_order(reinterpret_cast<std::byte*>(&out), sources, 1, tensor::DType::bf16);
  EXPECT_EQ(static_cast<float>(out), 1 + 0x1p-7f);
}

TEST(Sums, keep_the_order_over_blocks) {
  constexpr std::int64_t n = 5000;  // more than two blocks
  std::vector<float> a(n), b(n), c(n), expected(n);
  for (std::size_t i = 0; i < n; ++i) {
    a[i] = 1e8f;
    b[i] = static_cast<float>(i) + 3;
    c[i] = -1e8f;
    expected[i] = (a[i] + b[i]) + c[i];
  }
  EXPECT_NE(expected[1], b[1]);  // so the order shows
  const std::vector<const std::byte*> sources = {reinterpret_cast<const std::byte*>(a.data()),
                                                 reinterpret_cast<const std::byte*>(b.data()),
                                                 reinterpret_cast<const std::byte*>(c.data())};
  sum_in_order(reinterpret_cast<std::byte*>(b.data()), sources, n, tensor::DType::fp32);  // over a source
  EXPECT_EQ(b, expected);
}

TEST(Sums, maximum_lets_nan_win) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const std::vector<float> a{1, nan, 3, -inf}, b{2, 1, nan, -5}, c{1.5f, 7, inf, -7};
  const std::vector<const std::byte*> sources = {reinterpret_cast<const std::byte*>(a.data()),
                                                 reinterpret_cast<const std::byte*>(b.data()),
                                                 reinterpret_cast<const std::byte*>(c.data())};
  std::vector<float> out(4);
  max_in_order(reinterpret_cast<std::byte*>(out.data()), sources, 4, tensor::DType::fp32);
  EXPECT_EQ(out[0], 2);
  EXPECT_TRUE(std::isnan(out[1]));
  EXPECT_TRUE(std::isnan(out[2]));
  EXPECT_EQ(out[3], -5);
  EXPECT_THROW(max_in_order(reinterpret_cast<std::byte*>(out.data()), sources, 4, tensor::DType::u8), base::Error);
}

TEST(Sums, integers_have_a_signed_maximum_and_no_sum) {
  const std::vector<std::int32_t> a{1, -7, -2147483647 - 1, 2147483647}, b{2, -5, -2147483647, -1}, c{-3, -6, -9, 0};
  const std::vector<const std::byte*> sources = {reinterpret_cast<const std::byte*>(a.data()),
                                                 reinterpret_cast<const std::byte*>(b.data()),
                                                 reinterpret_cast<const std::byte*>(c.data())};
  std::vector<std::int32_t> out(4);
  const auto to = reinterpret_cast<std::byte*>(out.data());
  max_in_order(to, sources, 4, tensor::DType::i32);
  EXPECT_EQ(out, (std::vector<std::int32_t>{2, -5, -9, 2147483647}));
  EXPECT_THROW(sum_in_order(to, sources, 4, tensor::DType::i32), base::Error);
}

TEST(Scratch, is_kept_and_grows_to_the_most_needed_at_once) {
  ScratchPool pool;
  EXPECT_EQ(pool.take(0).data(), nullptr);
  {
    auto a = pool.take(1000);
    auto b = pool.take(500);
    EXPECT_EQ(pool.bytes(), 1500u);
    EXPECT_NE(a.data(), b.data());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a.data()) % ScratchPool::kAlignment, 0u);
  }
  {
    auto a = pool.take(400);  // the smaller block is enough
    auto b = pool.take(900);
    EXPECT_EQ(pool.bytes(), 1500u);
  }
  {
    auto a = pool.take(2000);  // replaces the larger one
    EXPECT_EQ(pool.bytes(), 2500u);
  }
  auto a = pool.take(2000);
  a.give_back();
  a.give_back();
  auto b = pool.take(2000), c = pool.take(500);
  EXPECT_EQ(pool.bytes(), 2500u);
}

// What a watchdog said, waiting for it at most 20 s.
class Said {
 public:
  void operator()(const std::string& text) {
    const std::lock_guard lock(mutex_);
    texts_.push_back(text);
  }
  std::vector<std::string> texts() {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    for (;;) {
      {
        const std::lock_guard lock(mutex_);
        if (!texts_.empty() || std::chrono::steady_clock::now() > limit) return texts_;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> texts_;
};

TEST(Dog, says_once_what_is_wrong) {
  Said said;
  std::atomic<int> looks = 0;
  const Watchdog dog(
      std::chrono::milliseconds(1),
      [&]() -> std::optional<std::string> {
        if (++looks < 5) return std::nullopt;
        return "look " + std::to_string(looks);
      },
      [&](const std::string& text) { said(text); });
  EXPECT_EQ(said.texts(), std::vector<std::string>{"look 5"});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(said.texts().size(), 1u);
  EXPECT_EQ(looks, 5);
}

TEST(Dog, takes_an_exception_for_what_is_wrong) {
  Said said;
  const Watchdog dog(
      std::chrono::milliseconds(1), []() -> std::optional<std::string> { throw std::runtime_error("cannot look"); },
      [&](const std::string& text) { said(text); });
  EXPECT_EQ(said.texts(), std::vector<std::string>{"cannot look"});
}

TEST(Dog, ends_at_once_when_nothing_is_wrong) {
  const auto begin = std::chrono::steady_clock::now();
  {
    const Watchdog dog(
        std::chrono::minutes(1), []() -> std::optional<std::string> { return "looked"; },
        [](const std::string& text) { ADD_FAILURE() << text; });
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

std::optional<std::string> problem(std::map<std::string, std::string> variables, int ranks) {
  return launch_problem(
      [&](const std::string& name) -> std::optional<std::string> {
        const auto it = variables.find(name);
        return it == variables.end() ? std::nullopt : std::optional(it->second);
      },
      ranks);
}

TEST(Launch, singletons_of_a_slurm_step_are_found) {
  const std::map<std::string, std::string> step = {
      {"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "4"}, {"SLURM_STEP_NUM_TASKS", "4"}};
  const auto text = problem(step, 1);
  ASSERT_TRUE(text);
  EXPECT_NE(text->find("4 tasks"), std::string::npos);
  EXPECT_NE(text->find("1 rank:"), std::string::npos);
  EXPECT_NE(text->find("srun --mpi=pmi2"), std::string::npos);
  EXPECT_FALSE(problem(step, 4));
}

TEST(Launch, the_launcher_of_another_mpi_is_found) {
  const auto text = problem({{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "1"}, {"PMIX_RANK", "1"}}, 1);
  ASSERT_TRUE(text);
  EXPECT_NE(text->find("open mpi started 2 processes, but mpi counts 1 rank"), std::string::npos);
  EXPECT_FALSE(problem({{"OMPI_COMM_WORLD_SIZE", "2"}}, 2));
}

TEST(Launch, too_little_shared_memory_is_found_before_mpi_ends_the_process) {
  const auto found = [](std::map<std::string, std::string> variables, std::optional<Room> room,
                        const std::string& library = "MPICH 4.0.2, ch4:ucx") {
    const auto look = [&](const std::string& name) -> std::optional<std::string> {
      const auto it = variables.find(name);
      return it == variables.end() ? std::nullopt : std::optional(it->second);
    };
    return shared_memory_problem(look, library, room).value_or("");
  };
  constexpr std::uint64_t kMiB = 1 << 20;
  EXPECT_EQ(found({}, Room{64 * kMiB, 64 * kMiB}), "");
  EXPECT_NE(found({}, Room{4 * kMiB, 4 * kMiB})
                .find("/dev/shm has 4194304 bytes, 4194304 of them free, and mpi needs "
                      "4292720 for each rank of this node, 4292720 in all: make it"),
            std::string::npos);
  const std::map<std::string, std::string> four = {{"MPI_LOCALNRANKS", "4"}, {"UCX_TLS", "self,sm"}};
  EXPECT_NE(found(four, Room{16 * kMiB, 16 * kMiB}).find("17170880 in all"), std::string::npos);
  EXPECT_EQ(found(four, Room{32 * kMiB, 5 * kMiB}), "") << "others have taken theirs";
  EXPECT_NE(found(four, Room{32 * kMiB, kMiB}), "") << "files of other programs";
  EXPECT_EQ(found({{"UCX_TLS", "tcp"}}, Room{kMiB, kMiB}), "");
  EXPECT_EQ(found({}, Room{kMiB, kMiB}, "Open MPI 4.1"), "");
  EXPECT_EQ(found({}, std::nullopt), "");
  EXPECT_TRUE(room_of("/"));
  EXPECT_FALSE(room_of("/nothing/here"));
}

TEST(Launch, other_launches_are_left_alone) {
  EXPECT_FALSE(problem({}, 1));
  // In a batch script, and under mpiexec there.
  EXPECT_FALSE(problem({{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}}, 1));
  // mpiexec started its own ranks from within a step.
  EXPECT_FALSE(problem({{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}, {"PMI_FD", "6"}}, 4));
  EXPECT_FALSE(problem({{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "four"}}, 1));
}

TEST(Launch, processes_of_a_launcher_that_mpi_does_not_understand_are_found) {
  // srun --mpi=pmi2 with an MPI library that has no PMI.
  const std::map<std::string, std::string> task = {{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "4"},
                                                   {"PMI_FD", "6"},        {"PMI_RANK", "1"},     {"PMI_SIZE", "4"}};
  const auto text = problem(task, 1);
  ASSERT_TRUE(text);
  EXPECT_NE(text->find("4 processes"), std::string::npos);
  EXPECT_NE(text->find("1 rank:"), std::string::npos);
  EXPECT_FALSE(problem(task, 4));
}

bool one_node(std::map<std::string, std::string> variables) {
  return on_one_node([&](const std::string& name) -> std::optional<std::string> {
    const auto it = variables.find(name);
    return it == variables.end() ? std::nullopt : std::optional(it->second);
  });
}

TEST(Launch, one_node_is_known_where_the_launcher_says_so) {
  EXPECT_TRUE(one_node({{"MPI_LOCALNRANKS", "4"}, {"PMI_SIZE", "4"}}));
  EXPECT_FALSE(one_node({{"MPI_LOCALNRANKS", "2"}, {"PMI_SIZE", "4"}}));
  EXPECT_TRUE(one_node({{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_NODES", "1"}}));
  EXPECT_FALSE(one_node({{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_NODES", "2"}}));
  // mpiexec in a job of one task on each of two nodes
  EXPECT_FALSE(
      one_node({{"MPI_LOCALNRANKS", "2"}, {"PMI_SIZE", "4"}, {"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_NODES", "1"}}));
  EXPECT_FALSE(one_node({{"PMI_SIZE", "4"}}));
  EXPECT_FALSE(one_node({}));
}

TEST(Launch, one_process_reports) {
  const auto reports = [](std::map<std::string, std::string> variables) {
    return reports_launch([=](const std::string& name) -> std::optional<std::string> {
      const auto it = variables.find(name);
      return it == variables.end() ? std::nullopt : std::optional(it->second);
    });
  };
  EXPECT_TRUE(reports({}));
  EXPECT_TRUE(reports({{"SLURM_PROCID", "0"}}));
  EXPECT_FALSE(reports({{"SLURM_PROCID", "3"}}));
  EXPECT_FALSE(reports({{"SLURM_PROCID", "0"}, {"PMI_RANK", "2"}}));
}

TEST(Launch, reads_this_process) {
  EXPECT_TRUE(process_variables()("PATH"));
  EXPECT_FALSE(process_variables()("SHARD8_NO_SUCH_VARIABLE"));
}

TEST(Quota, of_a_cgroup) {
  const std::string file = testing::TempDir() + "shard8_cpu_max";
  const auto quota_of = [&](const char* text) {
    std::ofstream(file) << text;
    return cpu_quota(file);
  };
  EXPECT_EQ(quota_of("150000 100000\n"), 2);
  EXPECT_EQ(quota_of("400000 100000\n"), 4);
  EXPECT_EQ(quota_of("max 100000\n"), std::nullopt);
  EXPECT_EQ(quota_of(""), std::nullopt);
  std::remove(file.c_str());
  EXPECT_EQ(cpu_quota(file), std::nullopt);
}

}  // namespace
}  // namespace shard8::comm::tests
