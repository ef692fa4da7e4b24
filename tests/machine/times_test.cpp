// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "machine/times.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"

namespace shard8::machine {
namespace {

using base::Axis;
using operation::Product;
using profile::Collective;
using tensor::DType;

Product product(std::int64_t m, std::int64_t n, std::int64_t k, DType dtype = DType::bf16) {
  Product p;
  p.rows = m;
  p.cols = n;
  p.inner = k;
  p.left.dtype = p.right.dtype = p.out = dtype;
  return p;
}

Figure given(double value) { return {value, 0, 1}; }

/// Products at 1 TFLOP/s, a kernel of 1 µs and 1 µs a megabyte, eight ranks a node.
Machine machine() {
  Machine m;
  m.path = "test.yaml";
  m.sources.push_back({"here", Source::Kind::chosen, "made up"});
  m.node_devices = given(8);
  m.device = true;
  for (const std::int64_t n : {1024, 4096}) {
    ProductTime entry;
    entry.product = product(n, n, n);
    entry.seconds = 1e-12 * entry.product.flops();
    m.products.push_back(entry);
  }
  for (const std::uint64_t megabytes : {1, 4, 16}) {
    KernelTime entry;
    entry.name = "cast";
    entry.bytes = 1000000 * megabytes;
    entry.seconds = 1e-6 * (1 + static_cast<double>(megabytes));
    m.kernels.push_back(entry);
  }
  return m;
}

/// The message of an error of a function; empty: there is none.
template <class F>
std::string error_of(const F& f) {
  try {
    f();
  } catch (const base::Error& e) {
    EXPECT_EQ(e.code(), base::ExitCode::deck);
    return e.what();
  }
  return {};
}

TEST(MachineTimes, a_product_that_is_an_entry_takes_its_time) {
  const Machine m = machine();
  const Estimate e = Times(m).product(product(4096, 4096, 4096));
  EXPECT_EQ(e.known, Known::entry);
  EXPECT_DOUBLE_EQ(e.seconds, 1e-12 * 2 * 4096.0 * 4096 * 4096);
}

TEST(MachineTimes, a_product_between_entries_has_their_rate) {
  const Machine m = machine();
  const Estimate e = Times(m).product(product(2048, 1024, 4096));
  EXPECT_EQ(e.known, Known::between);
  EXPECT_NEAR(e.seconds, 1e-12 * 2 * 2048.0 * 1024 * 4096, 1e-9 * e.seconds);
}

TEST(MachineTimes, a_product_outside_of_the_entries_says_how_far) {
  const Machine m = machine();
  const Estimate e = Times(m).product(product(4096, 512, 12288));
  EXPECT_EQ(e.known, Known::outside);
  EXPECT_NEAR(e.factor, 3, 1e-9);
}

TEST(MachineTimes, constants_change_computation) {
  const Machine m = machine();
  EXPECT_DOUBLE_EQ(Times(m, {.computation = 2}).product(product(4096, 4096, 4096)).seconds,
                   2 * Times(m).product(product(4096, 4096, 4096)).seconds);
  EXPECT_DOUBLE_EQ(Times(m, {.computation = 2}).kernel("cast", 4000000).seconds, 1e-5);
}

TEST(MachineTimes, what_the_file_does_not_say_is_an_error_that_names_it) {
  const Machine m = machine();
  const Times times(m);
  const std::string formats = error_of([&] { times.product(product(4096, 4096, 4096, DType::fp32)); });
  EXPECT_NE(formats.find("test.yaml: group products has no product of these formats"), std::string::npos) << formats;
  EXPECT_NE(formats.find("shard8 calibrate"), std::string::npos) << formats;
  const std::string far = error_of([&] { times.product(product(4096, 4096 * 5, 4096)); });
  EXPECT_NE(far.find("lies 5 times outside of the entries"), std::string::npos) << far;
  EXPECT_EQ(error_of([&] { Times(m, {}, 8).product(product(4096, 4096 * 5, 4096)); }), "");
  EXPECT_NE(error_of([&] { times.kernel("rope", 100); }).find("device.bandwidth"), std::string::npos);
  EXPECT_NE(error_of([&] { times.kernel("cast", 80000000); }).find("cast of 80000000 bytes"), std::string::npos);
  EXPECT_NE(error_of([&] {
              times.collective(Collective::all_gather, {2, 1, 2}, 100);
            }).find("node.bandwidth"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              times.collective(Collective::all_gather, {16, 2, 8}, 100);
            }).find("network.rails"),
            std::string::npos);
}

TEST(MachineTimes, a_kernel_is_linear_between_entries_and_has_a_least_time) {
  const Machine m = machine();
  const Times times(m);
  EXPECT_NEAR(times.kernel("cast", 10000000).seconds, 11e-6, 1e-15);
  EXPECT_EQ(times.kernel("cast", 10000000).known, Known::between);
  EXPECT_NEAR(times.kernel("cast", 32000000).seconds, 33e-6, 1e-15);
  EXPECT_EQ(times.kernel("cast", 32000000).known, Known::outside);
  EXPECT_DOUBLE_EQ(times.kernel("cast", 1).seconds, 1e-6 + 1e-12);
}

TEST(MachineTimes, a_kernel_below_its_entries_shrinks_as_any_does) {
  Machine m = machine();
  const auto add = [&](const char* name, std::uint64_t bytes, double microseconds) {
    KernelTime entry;
    entry.name = name;
    entry.bytes = bytes;
    entry.seconds = 1e-6 * microseconds;
    m.kernels.push_back(entry);
  };
  add("any", 100000, 4);
  add("any", 10000000, 5);  // caches serve it
  add("any", 800000000, 204);
  add("swiglu", 800000000, 408);
  add("swiglu", 1600000000, 808);
  const Times times(m);
  const auto swiglu = [&](std::uint64_t bytes) { return times.kernel("swiglu", bytes); };
  EXPECT_NEAR(swiglu(800000000).seconds, 408e-6, 1e-12);
  const double middle = 5 + 199.0 * 190 / 790;
  EXPECT_NEAR(swiglu(200000000).seconds, 408e-6 * middle / 204, 1e-10) << "twice as long as any";
  EXPECT_EQ(swiglu(200000000).known, Known::rule);
  EXPECT_EQ(swiglu(200000000).factor, 1);
  EXPECT_NEAR(swiglu(10000000).seconds, 408e-6 * 5 / 204, 1e-10);
  EXPECT_NEAR(swiglu(1000).seconds, 408e-6 * 4 / 204, 1e-7) << "a launch";
  // Never faster than in proportion: the caches of `any` do not serve a kernel that reads more.
  m.kernels[m.kernels.size() - 4].seconds = 1e-6;
  EXPECT_NEAR(Times(m).kernel("swiglu", 10000000).seconds, 408e-6 / 80, 1e-10);
}

TEST(MachineTimes, collectives_of_a_node_by_entries_and_for_other_ranks_by_bus_bandwidth) {
  Machine m = machine();
  for (const std::uint64_t bytes : {1000000, 2000000}) {
    CollectiveTime entry;
    entry.op = Collective::all_gather;
    entry.ranks = 2;
    entry.bytes = bytes;
    entry.seconds = 1e-5 + 1e-11 * static_cast<double>(bytes);
    m.collectives.push_back(entry);
  }
  const Times times(m);
  EXPECT_NEAR(times.collective(Collective::all_gather, {2, 1, 2}, 1500000).seconds, 2.5e-5, 1e-12);
  const Estimate eight = times.collective(Collective::all_gather, {8, 1, 8}, 1000000);
  EXPECT_NEAR(eight.seconds, 1e-5 + 1e-5 * (7.0 / 8) / (1.0 / 2), 1e-12);  // 10 us of them are latency
  EXPECT_EQ(eight.known, Known::outside);
  EXPECT_DOUBLE_EQ(eight.factor, 4);
  EXPECT_NE(error_of([&] {
              times.collective(Collective::all_gather, {16, 1, 16}, 1000000);
            }).find("over 16 ranks of a node"),
            std::string::npos);
}

TEST(MachineTimes, a_group_over_nodes_shares_the_rails_with_the_groups_beside_it) {
  Machine m = machine();
  m.rails = given(8);
  m.link_bandwidth = given(4e12);
  m.rail_bandwidth = given(50e9);
  m.latency = given(20e-6);
  m.latency_rank = given(1e-6);
  const std::uint64_t bytes = 1 << 30;
  const Times times(m);
  // All ranks of 4 nodes: 3/4 of the whole come into a node over 400 GB/s.
  EXPECT_NEAR(times.collective(Collective::all_gather, {32, 4, 8}, bytes).seconds,
              20e-6 + 31e-6 + 0.75 * static_cast<double>(bytes) / 400e9, 1e-9);
  // One rank of each of 4 nodes: an eighth of the rails.
  EXPECT_NEAR(times.collective(Collective::reduce_scatter, {4, 4, 1}, bytes).seconds,
              20e-6 + 3e-6 + 0.75 * static_cast<double>(bytes) / 50e9, 1e-9);
  // A small all-reduce goes through a tree.
  EXPECT_NEAR(times.collective(Collective::all_reduce, {32, 4, 8}, 8).seconds, 2 * 2 * 20e-6, 1e-9);
  m.oversubscription = given(2);
  EXPECT_NEAR(times.collective(Collective::reduce_scatter, {4, 4, 1}, bytes).seconds,
              20e-6 + 3e-6 + 0.75 * static_cast<double>(bytes) / 25e9, 1e-9);
}

TEST(MachineTimes, consecutive_ranks_share_a_node) {
  const base::Extents mesh(2, 8, 4);
  const auto at = [&](base::AxisSet group) { return place(mesh, group, 8); };
  EXPECT_EQ(at(Axis::tensor), (Placement{4, 1, 4}));
  EXPECT_EQ(at(Axis::shard), (Placement{8, 4, 2}));
  EXPECT_EQ(at(base::AxisSet::model), (Placement{32, 4, 8}));
  EXPECT_EQ(at(Axis::replicate), (Placement{2, 2, 1}));
  EXPECT_EQ(at(base::AxisSet::world), (Placement{64, 8, 8}));
  // Ranks 6, 7 and 8 are a tensor group, and lie on two nodes.
  EXPECT_EQ(place(base::Extents(1, 16, 3), Axis::tensor, 8), (Placement{3, 2, 2}));
}

}  // namespace
}  // namespace shard8::machine
