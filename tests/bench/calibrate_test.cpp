// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "bench/calibrate.hpp"
#include "deck/load.hpp"
#include "machine/machine.hpp"
#include "profile/spread.hpp"
#include "tests/support/execution.hpp"
#include "train/setup.hpp"

namespace shard8::bench {
namespace {

using machine::Load;

int world_size() {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  return ranks;
}

deck::Config config_of(int shard, const char* recipe = "none", const char* more = "") {
  return calibration_deck(deck::load_text(fmt::format(R"(
model: {{arch: llama, hidden: 128, ffn: 256, layers: 2, heads: 4, vocab: 256, seq: 64}}
mesh: {{shard: {}, tensor: {}}}
precision: {{compute: bf16}}
fp8: {{recipe: {}}}
overlap: {{enable: false}}
optimizer: {{lr: 0.001}}
data: {{kind: synthetic, batch: 4, micro_batch: 1}}
run: {{steps: 3}}
{}
)",
                                                      shard, world_size() / shard, recipe, more),
                                          "tiny.yaml")
                              .config);
}

/// The traced steps of a deck, and the list of operations of rank 0's step.
struct Timed {
  DeckTimes times;
  operation::Operations step;
  int rank = 0;
};

Timed timed(const deck::Config& config) {
  profile::CollectiveLog log;
  train::Assembly assembly(config, comm::Communicator(MPI_COMM_WORLD, "world", comm::Waiting::yield, &log),
                           tests::exec(), 1);
  assembly.open_files();
  assembly.start();
  Timed timed;
  timed.rank = assembly.mesh().world.rank();
  timed.times = time_steps(assembly, log, "tiny.yaml", {.warmup_s = 0.2, .seconds = 20, .most_traced = 12});
  timed.step = train::record_step(assembly.setup());
  return timed;
}

std::vector<machine::CollectiveTime> collectives_of(std::uint64_t most) {
  const comm::Communicator world(MPI_COMM_WORLD, "world", comm::Waiting::yield, nullptr);
  const GroupTimer time = [](const comm::Communicator& group, std::uint64_t bytes, int repetitions) {
    return bench_host_collectives(
        group, {.least = bytes, .most = bytes, .factor = 2, .warmup = 1, .repetitions = repetitions, .check = false});
  };
  return time_collectives(world, time, most, std::chrono::steady_clock::now() + std::chrono::seconds(30));
}

machine::Machine machine_of(const std::vector<DeckTimes>& decks,
                            const std::vector<machine::CollectiveTime>& collectives) {
  machine::Machine m;
  m.name = "test";
  const int source = m.add_source(machine::Source::Kind::measured, "here", "a test");
  add_work(m, decks, false, source);
  add_collectives(m, collectives, decks, 1, source);
  machine::sort_rows(m);
  return m;
}

std::map<WorkKey, double> entries_of(const machine::Machine& m) {
  std::map<WorkKey, double> entries;
  const auto add = [&](const WorkKey& key, double seconds) {
    EXPECT_TRUE(entries.emplace(key, seconds).second);
    EXPECT_GT(seconds, 0);
  };
  for (const auto& row : m.products) add(WorkKey::of(row.product), row.seconds);
  for (const auto& row : m.attention) add(WorkKey::of(row.attention), row.seconds);
  for (const auto& row : m.kernels) {
    WorkKey key{.load = Load::kernel, .kernel = row.name};
    key.numbers[0] = static_cast<std::int64_t>(row.bytes);
    add(key, row.seconds);
  }
  return entries;
}

/// Every operation of the step has an entry. Returns the sum of their times.
double sum_of(const machine::Machine& m, const operation::Operations& step) {
  const auto entries = entries_of(m);
  double sum = 0;
  for (const auto& o : step.list) {
    if (o.collective() != nullptr) continue;
    const auto entry = entries.find(WorkKey::of(o));
    EXPECT_NE(entry, entries.end()) << to_text(o);
    if (entry != entries.end()) sum += entry->second;
  }
  return sum;
}

TEST(Calibrate, DecksThatValidateAreTimedWithout) {
  deck::Config config = config_of(1);
  config.data.validation = 0.5;
  config.run.validate_every = 1;
  config = calibration_deck(config);
  EXPECT_FALSE(config.data.validates());
  EXPECT_EQ(config.run.validate_every, 0);
}

TEST(Calibrate, EntriesAreTheStep) {
  // Other programs take the cores for whole slices: the sum is between the fastest step and the one in the middle, and
  // the closest of some attempts is judged.
  double closest = 1e9;
  for (int attempt = 0; attempt < 6; ++attempt) {
    const Timed t = timed(config_of(world_size()));
    EXPECT_EQ(t.times.ranks.size(), t.rank == 0 ? static_cast<std::size_t>(world_size()) : 0u);
    double wrong = 0;
    if (t.rank == 0) {
      for (const RankTimes& rank : t.times.ranks) {
        EXPECT_EQ(rank.left_out, 0);
        EXPECT_GE(rank.computed_s.size(), 3u);
        EXPECT_EQ(rank.collectives.empty(), world_size() == 1);
      }
      const machine::Machine m = machine_of({t.times}, {});
      const double sum = sum_of(m, t.step);
      const auto& steps = t.times.ranks[0].computed_s;
      const double least = profile::percentile(steps, 0), middle = profile::percentile(steps, 50);
      EXPECT_GT(least, 0);
      EXPECT_LT(middle, profile::percentile(t.times.ranks[0].total_s, 50));
      wrong = std::max({least / sum - 1, sum / middle - 1, 0.0});
    }
    MPI_Bcast(&wrong, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    closest = std::min(closest, wrong);
    if (closest < 0.15) break;
  }
  EXPECT_LT(closest, 0.15);
}

TEST(Calibrate, FileReadsBack) {
  std::vector<DeckTimes> decks;
  std::vector<operation::Operations> steps;
  bool root = false;
  for (const auto& [shard, recipe] : {std::pair{world_size(), "none"}, {1, "none"}, {world_size(), "current"}}) {
    Timed t = timed(config_of(shard, recipe, world_size() > 1 ? "fsdp: {prefetch: 1}" : ""));
    root = t.rank == 0;
    decks.push_back(std::move(t.times));
    steps.push_back(std::move(t.step));
  }
  const auto collectives = collectives_of(16384);
  if (!root) return;
  const machine::Machine m = machine_of(decks, collectives);
  for (const auto& step : steps) sum_of(m, step);
  const machine::Machine read = machine::read_text(machine::write(m), "test.yaml");
  EXPECT_EQ(entries_of(read), entries_of(m));
  ASSERT_EQ(read.collectives.size(), m.collectives.size());
  const bool alone = world_size() == 1;
  EXPECT_EQ(m.collectives.empty(), alone);
  EXPECT_EQ(m.spread_ranks.given(), !alone);
  EXPECT_TRUE(m.spread_steps.given());
  EXPECT_EQ(m.link_bandwidth.given(), !alone);
  EXPECT_FALSE(m.rail_bandwidth.given());
  EXPECT_EQ(machine::write(m).find("node_collectives") == std::string::npos, alone);
  std::map<profile::Collective, int> kinds;
  for (const auto& row : read.collectives) {
    EXPECT_EQ(row.nodes, 1);
    EXPECT_EQ(row.ranks, 2);
    EXPECT_GT(row.seconds, 0);
    ++kinds[row.op];
  }
  EXPECT_GE(kinds.size(), alone ? 0u : 4u);
}

// Each step has another number of rows at each expert, the record the mean.
TEST(Calibrate, ExpertsWithAnyNumberOfRows) {
  const int ranks = world_size();
  const std::string experts = fmt::format("moe: {{experts: 4, experts_per_token: 2, ffn: 64, capacity: {}}}", ranks);
  deck::Config config = config_of(ranks, "none", experts.c_str());
  config.mesh.expert = ranks;
  const Timed t = timed(config);
  if (t.rank != 0) return;
  for (const RankTimes& rank : t.times.ranks) EXPECT_GE(rank.computed_s.size(), 3u);
  const machine::Machine m = machine_of({t.times}, {});
  sum_of(m, t.step);
  EXPECT_TRUE(std::any_of(m.products.begin(), m.products.end(),
                          [&](const auto& row) { return row.product.groups == 4 / ranks; }));
}

TEST(Calibrate, StopsInTime) {
  const auto begin = std::chrono::steady_clock::now();
  profile::CollectiveLog log;
  train::Assembly assembly(config_of(world_size()),
                           comm::Communicator(MPI_COMM_WORLD, "world", comm::Waiting::yield, &log), tests::exec(), 1);
  assembly.open_files();
  assembly.start();
  const DeckTimes times = time_steps(assembly, log, "tiny.yaml", {.warmup_s = 60, .seconds = 0.5});
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), 30);
  EXPECT_GE(times.warmup_steps, 2);
  for (const RankTimes& rank : times.ranks) EXPECT_GE(rank.computed_s.size(), 3u);
  EXPECT_TRUE(time_collectives(
                  comm::Communicator(MPI_COMM_WORLD, "world", comm::Waiting::yield, nullptr),
                  [](const auto&, std::uint64_t, int) -> std::vector<CollectiveFigures> {
                    ADD_FAILURE() << "a collective was timed after the deadline";
                    return {};
                  },
                  4096, begin)
                  .empty());
}

}  // namespace
}  // namespace shard8::bench
