// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "train/algorithms.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/train/decks.hpp"

namespace shard8::train {
namespace {

std::string value_of(const profile::Conditions& conditions, std::string_view name) {
  for (const auto& [n, value] : conditions)
    if (n == name) return value;
  return "not there";
}

/// Every condition has a name of its own and a value, the same on every rank, and the kinds' required ones are there.
TEST(Conditions, of_this_job) {
  profile::CollectiveLog log;
  const comm::Communicator world(MPI_COMM_WORLD, "world", comm::Waiting::yield, &log);
  const deck::Config config = test::small_deck({.mesh = {1, 1, world.size()}});
  const comm::Mesh mesh = comm::make_mesh(world.same(), config.mesh.extents());
  const train::Setup setup = train::Setup::make(config, world.rank(), 1);
  const profile::Conditions conditions = conditions_of(mesh, setup, "a program");
  std::set<std::string> names;
  std::string all;
  for (const auto& [name, value] : conditions) {
    EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_NE(value, "") << name;
    all += name + "=" + value + "\n";
  }
  for (const std::string& of_rank : world.all_gather(all)) EXPECT_EQ(of_rank, all);
  for (const std::string_view name : kAlgorithmsRequire) EXPECT_NE(value_of(conditions, name), "not there") << name;
  EXPECT_EQ(value_of(conditions, "program"), "a program");
  EXPECT_EQ(value_of(conditions, "threads a rank"), "1");
  EXPECT_EQ(value_of(conditions, "waiting"), "yield");
  EXPECT_EQ(value_of(conditions, "ranks a node"), std::to_string(world.size()));
  EXPECT_EQ(value_of(conditions, "nodes of a tensor group"), "1");
  if (world.size() == 1) {
    EXPECT_EQ(value_of(conditions, "transport"), "none");
  }
  for (const char* const name : {"machine", "CUDA", "CUDA driver", "cuBLASLt", "cuDNN", "NCCL", "BLAS", "MPI", "nodes",
                                 "cores a node", "ranks a device", "transport"})
    EXPECT_NE(value_of(conditions, name), "not there") << name;
}

/// What only some ranks have is told of all of them.
TEST(Conditions, ranks_that_differ) {
  profile::CollectiveLog log;
  const comm::Communicator world(MPI_COMM_WORLD, "world", comm::Waiting::yield, &log);
  const deck::Config config = test::small_deck({.mesh = {1, world.size(), 1}});
  const comm::Mesh mesh = comm::make_mesh(world.same(), config.mesh.extents());
  const train::Setup setup = train::Setup::make(config, world.rank(), world.rank() == 0 ? 1 : 3);
  EXPECT_EQ(value_of(conditions_of(mesh, setup, "a program"), "threads a rank"), world.size() == 1 ? "1" : "1 / 3");
}

}  // namespace
}  // namespace shard8::train
