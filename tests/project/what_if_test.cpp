// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "project/what_if.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"

namespace shard8::project {
namespace {

using machine::CollectiveTime;
using machine::Machine;

/// Collectives over two nodes: 20 us and 1 us a megabyte; kernels of 5 us and 1 us a megabyte.
Machine machine() {
  Machine m;
  for (const std::uint64_t megabytes : {0, 100}) {
    CollectiveTime collective;
    collective.nodes = 2;
    collective.bytes = 1000000 * megabytes;
    collective.seconds = 1e-6 * (20 + static_cast<double>(megabytes));
    m.collectives.push_back(collective);
    machine::KernelTime kernel;
    kernel.name = "any";
    kernel.bytes = collective.bytes;
    kernel.seconds = 1e-6 * (5 + static_cast<double>(megabytes));
    m.kernels.push_back(kernel);
  }
  return m;
}

Machine with(const std::string& changes) { return changed(machine(), read_changes(changes, "--what-if")); }

TEST(ProjectWhatIf, bandwidth_leaves_latency) {
  const Machine m = with("network.bandwidth=2x");
  EXPECT_DOUBLE_EQ(m.collectives[0].seconds, 20e-6);
  EXPECT_DOUBLE_EQ(m.collectives[1].seconds, 70e-6);
  EXPECT_DOUBLE_EQ(with("node.bandwidth=2x").collectives[1].seconds, 120e-6);
}

TEST(ProjectWhatIf, latency_leaves_bandwidth) {
  const Machine m = with("network.latency=3x");
  EXPECT_DOUBLE_EQ(m.collectives[0].seconds, 60e-6);
  EXPECT_DOUBLE_EQ(m.collectives[1].seconds, 160e-6);
}

TEST(ProjectWhatIf, memory_leaves_launches) {
  const Machine m = with("device.bandwidth=2x");
  EXPECT_DOUBLE_EQ(m.kernels[0].seconds, 5e-6);
  EXPECT_DOUBLE_EQ(m.kernels[1].seconds, 55e-6);
}

TEST(ProjectWhatIf, power_follows_the_cube_root) {
  Machine m = machine();
  m.products.emplace_back().seconds = 1e-3;
  const Change change = read_changes("device.power=0.512x", "--what-if").front();
  EXPECT_NEAR(changed(m, {&change, 1}).products[0].seconds, 1e-3 / 0.8, 1e-12);
}

TEST(ProjectWhatIf, several_changes_and_what_is_none) {
  EXPECT_EQ(read_changes("spread=2x,host.speed=0.5x", "--what-if").size(), 2u);
  for (const char* text :
       {"", "spread", "spread=2", "spread=0x", "spread=nanx", "sprad=2x", "spread=2x,", "spread=-1x"})
    EXPECT_THROW(read_changes(text, "--what-if"), base::Error) << text;
}

}  // namespace
}  // namespace shard8::project
