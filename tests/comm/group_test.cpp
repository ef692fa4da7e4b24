// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "comm/agree.hpp"
#include "comm/mesh.hpp"
#include "comm/node.hpp"
#include "tests/comm/buffer.hpp"
#include "tests/io/files.hpp"

namespace shard8::comm::tests {
namespace {

using base::Axis;
using base::AxisSet;
using Reduce = Communicator::Reduce;

std::vector<int> members(const Communicator& group, int my_number) {
  std::vector<int> all;
  for (const double x : group.all_gather(std::array<double, 1>{static_cast<double>(my_number)})) {
    all.push_back(static_cast<int>(x));
  }
  return all;
}

TEST(Split, orders_by_key_and_is_independent) {
  const Communicator group = world();
  const Communicator part = group.split(group.rank() % 2, -group.rank(), "parity");
  std::vector<int> expected;
  for (int r = group.size() - 1; r >= 0; --r) {
    if (r % 2 == group.rank() % 2) expected.push_back(r);
  }
  EXPECT_EQ(part.size(), static_cast<int>(expected.size()));
  EXPECT_EQ(members(part, group.rank()), expected);
  EXPECT_EQ(expected[static_cast<std::size_t>(part.rank())], group.rank());
  EXPECT_EQ(part.name(), "parity");
  EXPECT_EQ(part.waiting(), group.waiting());
}

TEST(Split, survives_a_move) {
  Communicator group = world();
  Communicator moved = std::move(group);
  EXPECT_EQ(members(moved, moved.rank()).size(), static_cast<std::size_t>(moved.size()));
  Communicator other = moved.split(0, moved.rank(), "all");
  other = std::move(moved);
  EXPECT_EQ(other.name(), "world");
  other.barrier();
}

// Every factorisation of the number of ranks.
std::vector<base::Extents> meshes_of(int ranks) {
  std::vector<base::Extents> meshes;
  for (int r = 1; r <= ranks; ++r) {
    for (int s = 1; r * s <= ranks; ++s) {
      if (ranks % (r * s) == 0) meshes.push_back({r, s, ranks / (r * s)});
    }
  }
  return meshes;
}

// Every set of axes has a group, whose members are found by looking at all ranks.
TEST(Mesh, places_and_groups) {
  const int ranks = world().size();
  for (const base::Extents& extents : meshes_of(ranks)) {
    const Mesh mesh =
        make_mesh(world(), extents, {}, {AxisSet{}, AxisSet::data, AxisSet{Axis::replicate, Axis::tensor}});
    const int me = mesh.world.rank();
    EXPECT_EQ(mesh.place.rank(), me);
    for (const AxisSet axes : {AxisSet{}, AxisSet::tensor, AxisSet::shard, AxisSet::model, AxisSet::replicate,
                               AxisSet{Axis::replicate, Axis::tensor}, AxisSet::data, AxisSet::world}) {
      std::vector<int> expected;
      for (int rank = 0; rank < ranks; ++rank) {
        const base::Place place(extents, rank);
        const bool together = std::ranges::all_of(
            base::kAxes, [&](Axis axis) { return axes.contains(axis) || place[axis] == mesh.place[axis]; });
        if (together) expected.push_back(rank);
      }
      const Communicator& group = mesh.group(axes);
      EXPECT_EQ(members(group, me), expected) << group.name() << " of " << text_of(extents);
      EXPECT_EQ(group.rank(), mesh.place.rank(axes));
      EXPECT_EQ(group.size(), extents.ranks(axes));
      EXPECT_EQ(group.name(), name_of(axes));
    }
  }
}

TEST(Mesh, has_no_groups_that_nobody_asked_for) {
  const Mesh mesh = make_mesh(world(), {1, world().size(), 1});
  try {
    mesh.group(AxisSet::data);
    FAIL() << "a group was made";
  } catch (const base::Error& e) {
    EXPECT_NE(std::string(e.what()).find("no communicators of the groups 'data'"), std::string::npos) << e.what();
  }
}

TEST(Mesh, needs_as_many_ranks_as_it_has_places) {
  const int ranks = world().size();
  try {
    make_mesh(world(), {ranks, 2, 1});
    FAIL() << "a mesh of twice the ranks was made";
  } catch (const base::Error& e) {
    EXPECT_EQ(e.code(), base::ExitCode::environment);
    const std::string text = e.what();
    EXPECT_NE(text.find("needs " + std::to_string(2 * ranks) + " ranks"), std::string::npos) << text;
    EXPECT_NE(text.find("but " + std::to_string(ranks) + " were started"), std::string::npos) << text;
  }
}

TEST(Agree, nothing_wrong) {
  const Communicator group = world();
  int runs = 0;
  agree(group, [&] { ++runs; });
  EXPECT_EQ(runs, 1);
}

void expect_agreed(const Communicator& group, const std::function<void()>& action, base::ExitCode code,
                   const std::string& message) {
  try {
    agree(group, action);
    FAIL() << "no error";
  } catch (const AgreedError& e) {
    EXPECT_EQ(e.code(), code);
    EXPECT_EQ(std::string(e.what()), message);
    EXPECT_EQ(e.ranks(), group.size());
  }
  group.barrier();
}

TEST(Agree, one_ranks_error_is_everybodys) {
  const Communicator group = world();
  const int last = group.size() - 1;
  const std::string prefix = group.size() == 1 ? "" : "rank " + std::to_string(last) + ": ";
  expect_agreed(
      group,
      [&] {
        if (group.rank() == last) base::fail(base::ExitCode::checkpoint, "no such file");
      },
      base::ExitCode::checkpoint, prefix + "no such file");
  expect_agreed(
      group,
      [&] {
        if (group.rank() == last) throw std::runtime_error("plain");
      },
      base::ExitCode::failed, prefix + "plain");
}

TEST(Agree, all_failed_has_no_rank_and_the_lowest_speaks) {
  const Communicator group = world();
  expect_agreed(
      group, [] { base::fail(base::ExitCode::deck, "bad deck"); }, base::ExitCode::deck, "bad deck");
  if (group.size() < 3) return;
  expect_agreed(
      group,
      [&] {
        if (group.rank() == 1) base::fail(base::ExitCode::environment, "one");
        if (group.rank() == 2) base::fail(base::ExitCode::stopped, "two, with a longer text");
      },
      base::ExitCode::environment, "rank 1: one");
}

TEST(Log, counts_calls_and_bytes) {
  profile::CollectiveLog log;
  const Communicator group = world(&log);
  const int n = group.size();
  Buffer gathered({n * 10, 3}, tensor::DType::bf16), second({n * 4}, tensor::DType::bf16),
      mine({10, 3}, tensor::DType::bf16);
  Buffer gradient({n * 6}, tensor::DType::fp32), out({6}, tensor::DType::fp32);
  for (Buffer* b : {&gathered, &second, &mine, &gradient}) b->fill(group.rank());
  for (int i = 0; i < 2; ++i) group.all_gather_in_place(std::vector{gathered.tensor(), second.tensor()}).wait();
  group.all_gather(gathered.tensor(), mine.tensor());
  group.reduce_scatter(out.tensor(), gradient.tensor());
  group.all_reduce(std::vector{out.tensor()}, Reduce::sum).wait();
  group.barrier();
  log.set_measuring(false);
  group.all_gather(gathered.tensor(), mine.tensor());
  if (n == 1) {
    EXPECT_TRUE(log.entries().empty());
    return;
  }
  using profile::Collective;
  const auto un = static_cast<std::uint64_t>(n);
  const std::map<profile::CollectiveKey, std::uint64_t> expected = {
      {{Collective::all_gather, "world", n, "bf16", un * 10 * 3 * 2 + un * 4 * 2}, 2},
      {{Collective::all_gather, "world", n, "bf16", un * 10 * 3 * 2}, 1},
      {{Collective::reduce_scatter, "world", n, "fp32", un * 6 * 4}, 1},
      {{Collective::all_reduce, "world", n, "fp32", 6 * 4}, 1}};
  std::map<profile::CollectiveKey, std::uint64_t> calls;
  for (const auto& [key, stats] : log.entries()) {
    calls[key] = stats.calls;
    EXPECT_GT(stats.total_s, 0);
    EXPECT_GT(stats.exposed_s, 0);
    EXPECT_LT(stats.total_s, 20);
  }
  EXPECT_EQ(calls, expected);
  log.clear();
  EXPECT_TRUE(log.entries().empty());
}

TEST(Log, a_call_of_several_dtypes_is_one_of_each) {
  profile::CollectiveLog log;
  const Communicator group = world(&log);
  const int n = group.size();
  Buffer weights({n * 1000}, tensor::DType::e4m3), scales({n * 2}, tensor::DType::fp32),
      more({n * 3000}, tensor::DType::e4m3), nothing({0}, tensor::DType::e8m0);
  for (Buffer* b : {&weights, &scales, &more}) b->fill(group.rank());
  const std::vector unit{nothing.tensor(), weights.tensor(), scales.tensor(), more.tensor()};
  for (int i = 0; i < 3; ++i) group.all_gather_in_place(unit).wait();
  group.all_gather_in_place(std::vector{nothing.tensor()}).wait();
  if (n == 1) {
    EXPECT_TRUE(log.entries().empty());
    return;
  }
  using profile::Collective;
  const auto un = static_cast<std::uint64_t>(n);
  ASSERT_EQ(log.entries().size(), 3u);
  const auto& of_weights = log.entries().at({Collective::all_gather, "world", n, "e4m3", un * 4000});
  const auto& of_scales = log.entries().at({Collective::all_gather, "world", n, "fp32", un * 8});
  EXPECT_EQ(of_weights.calls, 3u);
  EXPECT_EQ(of_scales.calls, 3u);
  EXPECT_EQ(log.entries().at({Collective::all_gather, "world", n, "e8m0", 0}).calls, 1u);
  // The time by bytes, 4000 to 8; sums of three products round.
  EXPECT_GT(of_scales.total_s, 0);
  EXPECT_NEAR(of_weights.total_s / of_scales.total_s, 500, 1e-9);
  EXPECT_NEAR(of_weights.exposed_s / of_scales.exposed_s, 500, 1e-9);
}

TEST(Log, exposed_is_the_time_spent_waiting) {
  profile::CollectiveLog log;
  const Communicator group = world(&log);
  if (group.size() == 1) return;
  Buffer mine({1000}, tensor::DType::fp32);
  mine.fill(group.rank());
  double least = 1;
  for (int i = 0; i < 5; ++i) {  // a rank may lose its core while it waits, but not each time
    log.clear();
    group.barrier();
    Request request = group.all_reduce(std::vector{mine.tensor()}, Reduce::sum);
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
    while (!request.test() || std::chrono::steady_clock::now() < until) {
    }
    request.wait();
    const auto& stats = log.entries().begin()->second;
    EXPECT_GT(stats.total_s, 0);
    least = std::min(least, stats.exposed_s);
  }
  EXPECT_LT(least, 0.05);  // it was complete
}

TEST(Node, counts_the_ranks_and_their_cores) {
  const Node node = survey_node(MPI_COMM_WORLD);
  const int ranks = world().size();
  EXPECT_EQ(node.ranks, ranks);  // the tests run on one node
  EXPECT_GE(node.cores, 1);
  EXPECT_FALSE(node.host.empty());
}

// 4 cores of 2 hyperthreads as newer kernels tell, a core of 2 as older ones do, and 2 CPUs of which nothing is known.
TEST(Node, hyperthreads_are_one_core) {
  const test::TempFolder root;
  const auto tell = [&](int cpu, const char* name, const std::string& siblings) {
    const auto folder = std::filesystem::path(root.path()) / ("cpu" + std::to_string(cpu)) / "topology";
    std::filesystem::create_directories(folder);
    test::write_bytes((folder / name).string(), siblings + "\n");
  };
  for (int cpu = 0; cpu < 8; ++cpu)
    tell(cpu, "core_cpus_list", std::to_string(cpu % 4) + ',' + std::to_string(cpu % 4 + 4));
  for (int cpu = 8; cpu < 10; ++cpu) tell(cpu, "thread_siblings_list", "8-9");
  const auto cores = [&](const std::vector<int>& cpus) { return cores_of_cpus(cpus, root.path()); };
  EXPECT_EQ(cores({0, 1, 2, 3, 4, 5, 6, 7}), 4);
  EXPECT_EQ(cores({0, 1}), 2);
  EXPECT_EQ(cores({1, 5}), 1);  // a job that has one core
  EXPECT_EQ(cores({0, 4, 8, 9}), 2);
  EXPECT_EQ(cores({0, 20, 21}), 3);
  EXPECT_EQ(cores({}), 0);
}

}  // namespace
}  // namespace shard8::comm::tests
