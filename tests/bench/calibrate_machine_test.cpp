// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// What calibrate writes besides the times of a deck's operations: the network's figures, what the base gives, remarks.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/calibrate.hpp"
#include "machine/fields.hpp"

namespace shard8::bench {
namespace {

machine::CollectiveTime row(int nodes, int ranks, std::uint64_t bytes, double seconds) {
  machine::CollectiveTime r;
  r.op = profile::Collective::all_gather;
  r.nodes = nodes;
  r.ranks = ranks;
  r.bytes = bytes;
  r.seconds = seconds;
  return r;
}

TEST(CalibrateMachine, FitsTheNetwork) {
  std::vector<machine::CollectiveTime> rows;
  // 4 ports of 50 GB/s, 20 us and 3 us for each rank beyond two.
  for (const auto& [nodes, ranks] : {std::pair{2, 4}, {4, 4}, {2, 1}, {4, 1}})
    for (std::uint64_t bytes = 4096; bytes <= std::uint64_t{1} << 28; bytes *= 16)
      rows.push_back(row(nodes, ranks, bytes,
                         20e-6 + 3e-6 * (nodes * ranks - 2) +
                             static_cast<double>(bytes) * (nodes - 1) / nodes / std::min(4, ranks) / 50e9));
  for (std::uint64_t bytes : {4096, 1 << 20, 1 << 24}) rows.push_back(row(1, 4, bytes, 5e-6 + 1e-11 * double(bytes)));
  rows.push_back(row(1, 2, 4096, 1e-3));  // was held up: a larger one takes less than half of it
  rows.push_back(row(1, 2, 16384, 9e-6));
  machine::Machine m;
  const int source = m.add_source(machine::Source::Kind::measured, "here", "test");
  const auto remarks = add_collectives(m, rows, {}, 4, source);
  EXPECT_EQ(m.collectives.size(), rows.size() - 1);
  EXPECT_EQ(remarks.size(), 1u);
  EXPECT_EQ(m.rails.value, 4);
  EXPECT_NEAR(m.rail_bandwidth.value, 50e9, 1e6);
  EXPECT_NEAR(m.latency.value, 20e-6, 1e-9);
  EXPECT_NEAR(m.latency_rank.value, 3e-6, 1e-9);
  EXPECT_NEAR(m.link_latency.value, 5e-6 + 4096e-11, 1e-12);
  EXPECT_GT(m.link_bandwidth.value, 0.7e11);
}

TEST(CalibrateMachine, TakesTheRestFromTheBase) {
  machine::Machine base;
  base.note = "a node";
  const int theirs = base.add_source(machine::Source::Kind::datasheet, "sheet", "page 3");
  base.watts = {700, theirs, 9};
  base.rails = {8, theirs, 10};
  base.slowed[0][3] = {1.1, theirs, 11};
  machine::KernelTime k;
  k.name = "cast";
  k.bytes = 100;
  k.seconds = 3;
  k.source = theirs;
  base.kernels = {k};
  k.bytes = 200;
  base.kernels.push_back(k);
  base.collectives = {row(1, 2, 4096, 5)};
  base.collectives[0].source = theirs;

  machine::Machine m;
  const int source = m.add_source(machine::Source::Kind::measured, "here", "test");
  m.rails = {2, source, 0};
  k.bytes = 100;
  k.seconds = 1;
  k.source = source;
  m.kernels = {k};
  EXPECT_TRUE(add_base(m, base).empty());
  EXPECT_EQ(m.rails.value, 2);
  EXPECT_EQ(m.watts.value, 700);
  EXPECT_EQ(m.sources.at(static_cast<std::size_t>(m.watts.source)).text, "page 3");
  EXPECT_EQ(m.slowed[0][3].value, 1.1);
  EXPECT_EQ(m.note, "a node");
  ASSERT_EQ(m.kernels.size(), 2u);
  EXPECT_EQ(m.kernels[0].seconds, 1);
  EXPECT_EQ(m.kernels[1].bytes, 200u);
  ASSERT_EQ(m.collectives.size(), 1u);
  EXPECT_EQ(m.sources.at(static_cast<std::size_t>(m.collectives[0].source)).name, "sheet");
}

TEST(CalibrateMachine, TakesEveryFigureFromTheBase) {
  machine::Machine base, m;
  const int theirs = base.add_source(machine::Source::Kind::datasheet, "sheet", "page 3");
  double value = 1;
  const auto for_each = [](const auto& use) {
    for (const machine::Group& group : machine::all_groups())
      for (const machine::Field& field : group.fields)
        if (const auto* number = std::get_if<machine::Number>(&field.value)) use(*number, group, field);
  };
  for_each([&](const machine::Number& number, const auto&, const auto&) { number.of(base) = {value++, theirs, 1}; });
  add_base(m, base);
  for_each([&](const machine::Number& number, const machine::Group& group, const machine::Field& field) {
    EXPECT_EQ(number.of(m).value, number.of(base).value) << group.name << '.' << field.key;
    EXPECT_TRUE(number.of(m).given()) << group.name << '.' << field.key;
  });
}

// One device was seen of a node of eight, and the base has collectives of eight ranks.
TEST(CalibrateMachine, APartOfANodeHasTheBasesNode) {
  machine::Machine base;
  const int theirs = base.add_source(machine::Source::Kind::datasheet, "sheet", "page 3");
  base.node_devices = {8, theirs, 1};
  base.node_cores = {112, theirs, 2};
  const auto nodes_with = [&](double devices, bool device) {
    machine::Machine m;
    m.device = device;
    const int source = m.add_source(machine::Source::Kind::measured, "here", "test");
    m.node_devices = {devices, source, 0};
    m.node_cores = {32, source, 0};
    add_base(m, base);
    return std::pair(m.node_devices.value, m.node_cores.value);
  };
  EXPECT_EQ(nodes_with(1, true), std::pair(8.0, 112.0));
  EXPECT_EQ(nodes_with(8, true), std::pair(8.0, 32.0));
  EXPECT_EQ(nodes_with(16, true), std::pair(16.0, 32.0));
  EXPECT_EQ(nodes_with(1, false), std::pair(1.0, 32.0));
}

TEST(CalibrateMachine, RoundsTimesAndRatesOfEverySizeToFiveDigits) {
  machine::Machine m;
  for (const double seconds : {1.23456e-6, 0.0123456, 0.1056349, 12.3456}) {
    machine::CollectiveTime row;
    row.seconds = seconds;
    m.collectives.push_back(row);
  }
  m.rail_bandwidth = {1.234567e4, 0};
  round_times(m);
  EXPECT_EQ(m.collectives[0].seconds, 1.2346e-6);
  EXPECT_EQ(m.collectives[1].seconds, 0.012346);
  EXPECT_EQ(m.collectives[2].seconds, 0.10563);
  EXPECT_EQ(m.collectives[3].seconds, 12.346);
  EXPECT_EQ(m.rail_bandwidth.value, 12346);
}

TEST(CalibrateMachine, SaysWhenDecksTrainedForTooShort) {
  const std::array<DeckTimes, 3> decks{
      DeckTimes{.deck = "a.yaml", .ranks = {}, .warmup_steps = 2, .warmup_s = 4.5},
      DeckTimes{.deck = "b.yaml", .ranks = {}, .warmup_steps = 40, .warmup_s = 10},
      DeckTimes{.deck = "c.yaml", .ranks = {}, .warmup_steps = 3, .warmup_s = 0.75},
  };
  EXPECT_EQ(short_warmup(decks, 10, 2.5).value_or(""),
            "2 of 3 decks were trained for less than 10 s before steps were timed (c.yaml: 0.8 s in 3 steps): devices "
            "slow down meanwhile. Give more than --minutes 2.5, or fewer decks");
  EXPECT_FALSE(short_warmup(std::span(decks).subspan(1, 1), 10, 2.5));
}

}  // namespace
}  // namespace shard8::bench
