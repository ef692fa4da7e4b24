// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "project/projection.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>

#include "deck/load.hpp"
#include "machine/machine.hpp"
#include "train/setup.hpp"

namespace shard8::project {
namespace {

using machine::Load;
using profile::Phase;

constexpr Queue kGather = 1, kReduce = 2;

/// Builds a step task by task.
struct Steps {
  Step step;

  int compute(double seconds, std::vector<Wait> waits = {}, Phase phase = Phase::forward) {
    Task task;
    task.seconds = seconds;
    task.load = Load::product;
    task.phase = phase;
    task.part = static_cast<std::int8_t>(profile::Part::gemm);
    return add(task, waits);
  }
  int collective(Queue queue, double seconds, Waiting waiting = Waiting::gather, float demand = 1) {
    Task task;
    task.seconds = seconds;
    task.queue = queue;
    task.load = Load::collective;
    task.link = Link::network;
    task.demand = demand;
    task.waiting = waiting;
    return add(task, {});
  }
  int add(Task task, const std::vector<Wait>& waits) {
    task.first_wait = static_cast<int>(step.waits.size());
    task.waits = static_cast<int>(waits.size());
    step.waits.insert(step.waits.end(), waits.begin(), waits.end());
    step.tasks.push_back(task);
    return static_cast<int>(step.tasks.size()) - 1;
  }
};

SlowDowns none() {
  SlowDowns all{};
  for (auto& row : all) row.fill(1);
  return all;
}

double phase(const Simulated& s, Phase p) { return s.times.phase[static_cast<std::size_t>(p)]; }

TEST(ProjectSimulation, computation_alone_adds_up) {
  Steps s;
  s.compute(1);
  s.compute(2, {}, Phase::backward);
  const Simulated r = simulate(s.step, none());
  EXPECT_DOUBLE_EQ(r.times.total, 3);
  EXPECT_DOUBLE_EQ(phase(r, Phase::forward), 1);
  EXPECT_DOUBLE_EQ(phase(r, Phase::backward), 2);
  EXPECT_DOUBLE_EQ(r.times.part[1][static_cast<std::size_t>(profile::Part::gemm)], 2);
  EXPECT_DOUBLE_EQ(r.computing_s, 3);
}

TEST(ProjectSimulation, a_collective_hides_behind_computation_and_the_rest_is_waited_for) {
  Steps s;
  const int gather = s.collective(kGather, 3);
  s.compute(2);
  s.compute(1, {{gather, 1}});
  const Simulated r = simulate(s.step, none());
  EXPECT_DOUBLE_EQ(r.times.total, 4);
  EXPECT_DOUBLE_EQ(phase(r, Phase::gather_wait), 1);
  EXPECT_DOUBLE_EQ(r.exposed_s[static_cast<std::size_t>(gather)], 1);
  EXPECT_DOUBLE_EQ(r.in_flight_s, 3);
}

TEST(ProjectSimulation, a_collective_starts_after_the_computation_that_was_issued_before_it) {
  Steps s;
  s.compute(2);
  const int reduction = s.collective(kReduce, 1, Waiting::reduction);
  s.compute(1, {{reduction, 1}});
  const Simulated r = simulate(s.step, none());
  EXPECT_DOUBLE_EQ(r.times.total, 4);
  EXPECT_DOUBLE_EQ(phase(r, Phase::reduce_wait), 1);
}

TEST(ProjectSimulation, collectives_over_one_link_share_it) {
  Steps s;
  const int gather = s.collective(kGather, 1);
  const int reduction = s.collective(kReduce, 2, Waiting::reduction);
  s.compute(0.5, {{gather, 1}, {reduction, 1}});
  // Both run at half the rate for 2 s; then the second one is alone for 1 s.
  EXPECT_DOUBLE_EQ(simulate(s.step, none()).times.total, 3.5);
  for (Task& t : s.step.tasks) t.demand = 0.5;  // each is bound by the link for half of its time only
  EXPECT_DOUBLE_EQ(simulate(s.step, none()).times.total, 2.5);
  // 0.75 / 1.5 of the link each: together all of it, for 1.5 s. Then the second one is alone for 1 s.
  for (Task& t : s.step.tasks) t.demand = 0.75;
  EXPECT_NEAR(simulate(s.step, none()).times.total, 3.0, 1e-9);
}

// What two collectives share for a while, the link moves all the while, whatever their latencies.
TEST(ProjectSimulation, a_shared_link_moves_no_more_than_it_can) {
  for (const float demand : {0.55F, 0.7F, 0.9F, 1.0F})
    for (const int calls : {2, 3, 5}) {
      Steps s;
      std::vector<Wait> all;
      for (int i = 0; i < calls; ++i)
        all.push_back({s.collective(static_cast<Queue>(1 + i), 1, Waiting::gather, demand), 1});
      s.compute(0.5, all);
      const double busy = static_cast<double>(demand) * calls;  // of the link, in seconds
      EXPECT_NEAR(simulate(s.step, none()).times.total, 0.5 + busy, 1e-9) << demand << ' ' << calls;
    }
}

TEST(ProjectSimulation, what_runs_at_once_slows_each_other_down) {
  Steps s;
  s.collective(kGather, 10, Waiting::gather, 0);
  s.compute(1);
  SlowDowns slow = none();
  slow[static_cast<std::size_t>(Load::product)][static_cast<std::size_t>(Load::collective)] = 1.25;
  const Simulated r = simulate(s.step, slow, 1);
  EXPECT_DOUBLE_EQ(r.times.total, 1.25);
  EXPECT_DOUBLE_EQ(r.slowed_s, 0.25);
}

TEST(ProjectSimulation, a_gather_for_the_next_step_runs_on_after_this_one) {
  Steps s;
  s.compute(1, {{-1, 1}});
  s.compute(2);
  s.step.ahead.push_back(s.collective(kGather, 0.75));
  const Simulated r = simulate(s.step, none());
  EXPECT_DOUBLE_EQ(r.times.total, 3.75);
  EXPECT_DOUBLE_EQ(phase(r, Phase::gather_wait), 0.75);
}

TEST(ProjectSimulation, part_of_a_collective_is_enough_for_what_waits_for_that_part) {
  Steps s;
  const int gather = s.collective(kGather, 4, Waiting::exchange);
  s.compute(1);
  s.compute(1, {{gather, 0.5}});
  s.compute(1, {{gather, 1}});
  const Simulated r = simulate(s.step, none());
  EXPECT_DOUBLE_EQ(r.times.total, 5);  // 1, wait until 2, until 3, wait until 4, until 5
  EXPECT_DOUBLE_EQ(r.times.part[0][static_cast<std::size_t>(profile::Part::tensor_comm)], 2);
}

TEST(ProjectSimulation, a_host_that_issues_slowly_holds_the_device_up) {
  Steps s;
  for (int i = 0; i < 4; ++i) {
    s.compute(1);
    s.step.tasks.back().issue_s = 1.5;
  }
  s.step.issue_s = 0.5;
  const Simulated r = simulate(s.step, none());
  EXPECT_DOUBLE_EQ(r.times.total, 0.5 + 4 * 1.5 + 1);
  EXPECT_DOUBLE_EQ(r.host_s, r.times.total - 4);
}

/// MPI moves what is under way at once, NCCL what is under way on a stream in turn.
TEST(ProjectSimulation, collectives_of_hosts_begin_when_they_are_issued_and_those_of_devices_in_turn) {
  for (const char* name : {"host.yaml", "h100-sxm.yaml"}) {
    SCOPED_TRACE(name);
    const auto machine =
        machine::read((std::filesystem::path(SHARD8_SOURCE_DIR) / "inputs" / "machines" / name).string());
    const machine::Times times(machine, {}, 1e9);  // any extrapolation
    std::vector<std::string> overrides;
    if (machine.device) overrides = {"mesh.device=cuda", "precision.compute=bf16"};
    const auto deck = deck::load_text(R"(
model: {arch: llama, hidden: 256, ffn: 512, layers: 3, heads: 4, vocab: 512, seq: 128}
mesh: {shard: 2}
precision: {compute: fp32}
optimizer: {lr: 0.001}
data: {kind: synthetic, batch: 8}
run: {steps: 1}
)",
                                      "deck.yaml", overrides);
    const auto setup = train::Setup::make(deck.config, 0, 1);
    TaskList list(setup, times, 1, 1);
    train::record_step(setup, {}, [&](const operation::Operation& o) { list.add(o); });
    std::set<Queue> gathers;
    int last = -1;
    for (const Task& t : list.step().tasks) {
      if (t.queue == kCompute || t.waiting != Waiting::gather) continue;
      if (!machine.device) {
        EXPECT_NE(static_cast<int>(t.queue), last);
      }
      last = t.queue;
      gathers.insert(t.queue);
    }
    EXPECT_EQ(gathers.size(), machine.device ? 1u : static_cast<std::size_t>(kAtOnce));
  }
}

TEST(ProjectSimulation, the_phases_are_the_step) {
  Steps s;
  int before = -1;
  for (int i = 0; i < 50; ++i) {
    const int gather = s.collective(i % 3 == 0 ? kReduce : kGather, 0.3 + 0.1 * (i % 7), Waiting::gather, 0.7F);
    s.compute(0.2 + 0.05 * (i % 5), before < 0 ? std::vector<Wait>{} : std::vector<Wait>{{before, 1}});
    before = gather;
  }
  SlowDowns slow = none();
  for (auto& row : slow) row.fill(1.1);
  const Simulated r = simulate(s.step, slow);
  double phases = 0;
  for (const double p : r.times.phase) phases += p;
  EXPECT_NEAR(phases, r.times.total, 1e-9);
}

}  // namespace
}  // namespace shard8::project
