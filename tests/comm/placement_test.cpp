// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/node.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "tests/comm/buffer.hpp"

namespace shard8::comm::tests {
namespace {

/// The test program was started with each rank on a node of its own.
bool apart() {
  const char* const value = std::getenv("MPIR_CVAR_NOLOCAL");
  return value != nullptr && std::string_view(value) == "1";
}

TEST(Placement, as_texts) {
  const Placement one{.node_of = {0, 0, 0, 0}, .cores = {8}, .device_of = {}};
  EXPECT_EQ(ranks_on_nodes(one), "4");
  EXPECT_EQ(cores_of_nodes(one), "8");
  EXPECT_EQ(ranks_on_devices(one), "none");
  for (const int tensor : {1, 2, 4})
    EXPECT_EQ(nodes_of_groups(one, {1, 4 / tensor, tensor}, base::AxisSet::tensor), "1");
  const Placement blocks{.node_of = {0, 0, 1, 1}, .cores = {8, 8}, .device_of = {0, 1, 2, 3}};
  EXPECT_EQ(ranks_on_nodes(blocks), "2");
  EXPECT_EQ(cores_of_nodes(blocks), "8");
  EXPECT_EQ(ranks_on_devices(blocks), "1");
  EXPECT_EQ(nodes_of_groups(blocks, {1, 2, 2}, base::AxisSet::tensor), "1");
  EXPECT_EQ(nodes_of_groups(blocks, {1, 1, 4}, base::AxisSet::tensor), "2");
  // As many ranks on as many nodes, in another order.
  const Placement turns{.node_of = {0, 1, 0, 1}, .cores = {8, 4}, .device_of = {0, 0, 1, 2}};
  EXPECT_EQ(ranks_on_nodes(turns), "2");
  EXPECT_EQ(cores_of_nodes(turns), "8, 4");
  EXPECT_EQ(ranks_on_devices(turns), "1 to 2");
  EXPECT_EQ(nodes_of_groups(turns, {1, 2, 2}, base::AxisSet::tensor), "2");
  const Placement uneven{.node_of = {0, 0, 0, 1}, .cores = {8, 8}, .device_of = {0, 0, 0, 0}};
  EXPECT_EQ(ranks_on_nodes(uneven), "3, 1");
  EXPECT_EQ(ranks_on_devices(uneven), "4");
  EXPECT_EQ(nodes_of_groups(uneven, {1, 2, 2}, base::AxisSet::tensor), "1 to 2");
  EXPECT_THROW(static_cast<void>(nodes_of_groups(uneven, {1, 1, 2}, base::AxisSet::tensor)), base::Error);
}

TEST(Placement, of_this_job) {
  const Communicator group = world();
  const Placement placement = group.placement();
  std::vector<int> expected(static_cast<std::size_t>(group.size()), 0);
  if (apart()) std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(placement.node_of, expected);
  EXPECT_EQ(placement.nodes(), apart() ? group.size() : 1);
  EXPECT_TRUE(placement.device_of.empty());
  for (const int cores : placement.cores) EXPECT_GE(cores, 1);
  // The nodes of a part are counted anew.
  const Communicator half = group.split(group.rank() % 2, group.rank(), "half");
  EXPECT_EQ(half.placement().nodes(), apart() ? half.size() : 1);
}

/// What is told beforehand is what the group then gets.
TEST(Placement, transport) {
  const Communicator group = world();
  constexpr std::size_t kBytes = 10000;
  const std::string told = group.parts_transport(kBytes, kBytes);
  EXPECT_EQ(told, group.parts_transport(kBytes, kBytes));
  std::string problem;
  const auto memory = group.parts_memory(kBytes, kBytes, &problem);
  if (group.size() == 1) {
    EXPECT_EQ(told, "none");
  } else if (memory != nullptr) {
    EXPECT_EQ(told, "memory that ranks share");
    EXPECT_FALSE(apart());
  } else {
    EXPECT_TRUE(apart()) << problem;
    EXPECT_EQ(told, "messages, because the group is on several nodes");
  }
  if (memory != nullptr) {
    EXPECT_THROW(static_cast<void>(group.parts_transport(kBytes, kBytes)), base::Error);
  }
  if (group.size() > 1 && memory == nullptr) {
    EXPECT_EQ(group.parts_transport(0, 0), "messages, because no exchange goes by parts");
  }
}

}  // namespace
}  // namespace shard8::comm::tests
