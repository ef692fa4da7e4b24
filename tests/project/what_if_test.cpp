// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "project/report.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "base/error.hpp"
#include "machine/fields.hpp"

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
  const Change change = read_changes("host.speed=2x, device.power = 0.512x", "--what-if").back();
  EXPECT_NEAR(changed(m, {&change, 1}).products[0].seconds, 1e-3 / 0.8, 1e-12);
}

TEST(ProjectWhatIf, no_power_exceeds_the_peak) {
  Machine m = machine();
  m.peak_fp32 = {1e12, 0, 0};
  machine::ProductTime& product = m.products.emplace_back();
  product.product.rows = product.product.cols = product.product.inner = 1000;  // 2 ms at the peak
  machine::AttentionTime& attention = m.attention.emplace_back();
  attention.attention.shape = {.batch = 1, .seq = 1000, .heads = 1, .kv_heads = 1, .head_dim = 100};  // 0.2 ms
  const auto times = [&](double seconds, const char* changes) {
    m.products[0].seconds = seconds;
    m.attention[0].seconds = seconds / 10;
    const Machine now = changed(m, read_changes(changes, "--what-if"));
    EXPECT_NEAR(now.attention[0].seconds, now.products[0].seconds / 10, 1e-12);
    return now.products[0].seconds;
  };
  EXPECT_NEAR(times(3e-3, "device.power=1.331x"), 3e-3 / 1.1, 1e-12);
  EXPECT_NEAR(times(3e-3, "device.power=10x"), 2e-3, 1e-12);
  EXPECT_NEAR(times(1.9e-3, "device.power=10x"), 1.9e-3, 1e-12) << "a file may round";
  EXPECT_NEAR(times(1.9e-3, "device.power=0.125x"), 3.8e-3, 1e-12);
  EXPECT_NEAR(times(3e-3, "device.products=2x,device.power=10x"), 1e-3, 1e-12);
}

// A property without a row here, or a new key of machine files, fails: somebody has to say what depends on what.
TEST(ProjectWhatIf, each_property_changes_all_that_depends_on_it) {
  const std::map<std::string, std::set<std::string>, std::less<>> changes{
      {"device.products", {"products", "attention", "device.peak_bf16", "device.peak_fp8", "device.peak_fp32"}},
      {"device.bandwidth", {"kernels", "device.bandwidth of kernels"}},
      {"device.power", {"products", "attention", "device.watts", "device.watts_idle"}},
      {"host.speed",
       {"host.issue_product", "host.issue_attention", "host.issue_kernel", "host.issue_collective", "host.issue_step"}},
      {"node.bandwidth", {"node_collectives", "node.bandwidth"}},
      {"network.bandwidth", {"network_collectives", "network.bandwidth"}},
      {"network.latency", {"network_collectives", "network.latency", "network.latency_rank"}},
      {"spread", {"spread.ranks", "spread.steps", "spread.calls"}},
  };
  std::set<std::string> unchanged{"node.devices",
                                  "node.cores",
                                  "node.latency",
                                  "device.memory",
                                  "network.rails",
                                  "host.bandwidth",
                                  "reliability.failures",
                                  "reliability.restart",
                                  "storage.write",
                                  "device.bandwidth",
                                  "network.oversubscription",
                                  "storage.read"};
  Machine m = machine();
  const auto for_each = [](const auto& use) {
    for (const machine::Group& group : machine::all_groups())
      for (const machine::Field& field : group.fields)
        if (const auto* number = std::get_if<machine::Number>(&field.value))
          use(std::string(group.name) + '.' + field.key, *number);
  };
  for_each([&](const std::string& key, const machine::Number& number) {
    number.of(m) = {8, 0, 0};
    if (key.starts_with("overlap.")) unchanged.insert(key);
  });
  m.products.emplace_back().seconds = m.attention.emplace_back().seconds = 1;
  for (const CollectiveTime& row : machine().collectives) m.collectives.emplace_back(row).nodes = 1;
  for (const Property& property : properties()) {
    const auto expected = changes.find(property.key);
    ASSERT_NE(expected, changes.end()) << property.key;
    const Change change{&property, 0.5};
    const Machine after = changed(m, {&change, 1});
    std::set<std::string> found;
    const auto see = [&](const std::string& key, double a, double b) {
      if (a != b) found.insert(key);
      if (a != b) unchanged.erase(key);
    };
    for_each([&](const std::string& key, const auto& number) { see(key, number.of(m).value, number.of(after).value); });
    see("device.bandwidth of kernels", m.bandwidth_of_kernels, after.bandwidth_of_kernels);
    see("products", m.products[0].seconds, after.products[0].seconds);
    see("attention", m.attention[0].seconds, after.attention[0].seconds);
    for (std::size_t i = 0; i < m.kernels.size(); ++i) see("kernels", m.kernels[i].seconds, after.kernels[i].seconds);
    for (std::size_t i = 0; i < m.collectives.size(); ++i)
      see(m.collectives[i].nodes > 1 ? "network_collectives" : "node_collectives", m.collectives[i].seconds,
          after.collectives[i].seconds);
    EXPECT_EQ(found, expected->second) << property.key;
  }
  for_each([&](const std::string& key, const auto&) {
    bool any = unchanged.contains(key);
    for (const auto& [property, keys] : changes) any = any || keys.contains(key);
    EXPECT_TRUE(any) << key << ": does a property change it?";
  });
  EXPECT_EQ(unchanged.size(), 12u + std::size_t{machine::kLoads * machine::kLoads});
}

TEST(ProjectWhatIf, less_power_takes_no_more_watts) {
  Machine m = machine();
  m.watts = {700, 0, 0};
  Projection step;
  step.nominal_s = step.low_s = step.high_s = 1;
  for (const double idle : {0.0, 70.0, 600.0})
    for (const double busy : {0.0, 0.3, 1.0}) {
      m.watts_idle = idle > 0 ? machine::Figure{idle, 0, 0} : machine::Figure{};
      double watts = 0;
      for (const char* factor : {"0.01x", "0.1x", "0.5x", "0.9x", "1x", "1.2x"}) {
        const Machine now = changed(m, read_changes(std::string("device.power=") + factor, "--what-if"));
        // As the step computes longer, its busy share grows, by no more than the factor of products.
        step.computing_s = std::min(1.0, busy * std::cbrt(700 / now.watts.value));
        const auto energy = energy_of(step, now, 1);
        ASSERT_TRUE(energy);
        EXPECT_LE(energy->watts, now.watts.value * (1 + 1e-12)) << factor;
        EXPECT_GE(energy->watts, watts * (1 - 1e-12)) << factor << " idle " << idle << " busy " << busy;
        EXPECT_LE(now.watts_idle.value, now.watts.value) << factor;
        watts = energy->watts;
      }
    }
}

TEST(ProjectWhatIf, memory_changes_kernels_without_rows) {
  Machine m = machine();
  m.path = "test.yaml";
  m.kernels[0].name = m.kernels[1].name = "cast";  // no row says how long another kernel takes
  m.bandwidth = {1e12, 0, 0};
  const Machine half = changed(m, read_changes("device.bandwidth=0.5x", "--what-if"));
  EXPECT_DOUBLE_EQ(machine::Times(half).kernel("sum", 1000000).seconds,
                   2 * machine::Times(m).kernel("sum", 1000000).seconds);
}

TEST(ProjectWhatIf, several_changes_and_what_is_none) {
  EXPECT_EQ(read_changes("spread=2x,host.speed=0.5x", "--what-if").size(), 2u);
  for (const char* text : {"", "spread", "spread=2", "spread=0x", "spread=nanx", "sprad=2x", "spread=2x,", "spread=-1x",
                           "spread=2x,host.speed=2x,spread=2x"})
    EXPECT_THROW(read_changes(text, "--what-if"), base::Error) << text;
}

}  // namespace
}  // namespace shard8::project
