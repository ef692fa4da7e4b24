// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "project/skeleton_waits.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <numbers>

#include "base/error.hpp"
#include "deck/load.hpp"
#include "machine/machine.hpp"
#include "machine/times.hpp"
#include "project/projection.hpp"
#include "tests/io/files.hpp"
#include "tests/support/execution.hpp"
#include "train/setup.hpp"

namespace shard8::project {
namespace {

using Json = nlohmann::json;
using operation::Operation;
using profile::Phase;

constexpr const char* kDeck = R"(
model: {arch: llama, hidden: 256, ffn: 512, layers: 3, heads: 4, kv_heads: 2, vocab: 512, seq: 128, recompute: selective}
mesh: {shard: 2, tensor: 2}
precision: {compute: bf16}
optimizer: {lr: 0.001}
data: {kind: synthetic, batch: 8, micro_batch: 2}
run: {steps: 6}
)";

const std::filesystem::path kMachine =
    std::filesystem::path(SHARD8_SOURCE_DIR) / "inputs" / "machines" / "h100-sxm.yaml";

std::string group_of(const Operation& o) {
  if (o.phase == Phase::optimizer || o.phase == Phase::quantize) return std::string(profile::name_of(o.phase));
  if (o.phase != Phase::forward && o.phase != Phase::backward) return "other";
  const char* part = o.product() != nullptr ? "gemm" : o.attention() != nullptr ? "attention" : "elementwise";
  return std::string(profile::name_of(o.phase)) + ' ' + part;
}

const std::map<std::string, double> kSeconds = {{"forward gemm", 0.011},        {"forward attention", 0.002},
                                                {"forward elementwise", 0.005}, {"backward gemm", 0.023},
                                                {"backward attention", 0.006},  {"backward elementwise", 0.009},
                                                {"optimizer", 0.004},           {"quantize", 0.0007}};

/// The deck as a summary has it.
Json deck_of(const deck::LoadResult& deck) {
  Json object;
  for (const deck::Echo& e : deck.echo) {
    const std::string text = deck::value_text(e);
    Json parsed = std::holds_alternative<std::string>(e.value) ? Json(text) : Json::parse(text, nullptr, false);
    object[e.group][e.key] = parsed.is_discarded() ? Json(text) : std::move(parsed);
  }
  return object;
}

Json summary_of(const deck::LoadResult& deck, bool device) {
  Json rows = Json::array();
  for (const auto& [name, seconds] : kSeconds) {
    const auto space = name.find(' ');
    rows.push_back({{"phase", name.substr(0, space)},
                    {"part", space == std::string::npos ? "" : name.substr(space + 1)},
                    {"mean_s", seconds}});
  }
  return {{"phases", rows}, {"deck", deck_of(deck)}, {"run", {{"backend", device ? "nccl" : "mpi"}}}};
}

deck::LoadResult loaded(const std::vector<std::string>& overrides) {
  return deck::load_text(kDeck, "deck.yaml", overrides);
}

TEST(SkeletonTimes, of_a_run_add_up_to_the_rows_of_its_summary) {
  for (const char* device : {"host", "cuda"})
    for (const char* recipe : {"none", "delayed", "current"}) {
      SCOPED_TRACE(std::string(device) + ' ' + recipe);
      const test::TempFolder folder;
      const std::vector<std::string> keys = {std::string("mesh.device=") + device, std::string("fp8.recipe=") + recipe};
      test::write_bytes(folder / "summary.json", summary_of(loaded(keys), std::string(device) == "cuda").dump());
      auto skeleton = keys;
      skeleton.insert(skeleton.end(), {"run.skeleton=communication", "run.skeleton_times=" + folder.path()});
      std::string said;
      for (const char* other : {"data.batch=8", "data.batch=16"}) {  // twice the micro-batches take twice the time
        auto longer = skeleton;
        longer.emplace_back(other);
        const auto setup = train::Setup::make(loaded(longer).config, 0, 1);
        const auto times = read_skeleton_times(setup, said);
        std::map<std::string, double> sums;
        train::record_step(setup, {}, [&](const Operation& o) {
          if (o.collective() == nullptr) sums[group_of(o)] += times->seconds(o);
        });
        const double micro_batches = std::string(other) == "data.batch=16" ? 2 : 1;
        for (const auto& [name, seconds] : kSeconds) {
          if (!sums.contains(name)) continue;  // quantize without a recipe
          const bool once = name == "optimizer" || name == "quantize" || name.ends_with("elementwise");  // not all
          if (once && micro_batches > 1) continue;
          EXPECT_NEAR(sums[name] / (micro_batches * seconds), 1, 1e-9) << name;
        }
        EXPECT_EQ(sums.size() >= 7, true);
      }
      EXPECT_NE(said.find("waits as measured in"), std::string::npos);
    }
}

TEST(SkeletonTimes, of_a_machine_add_up_to_the_projection) {
  const machine::Machine machine = machine::read(kMachine.string());
  const machine::Times times(machine);
  for (const char* recipe : {"none", "delayed", "current"}) {
    SCOPED_TRACE(recipe);
    const auto deck =
        loaded({"mesh.device=cuda", std::string("fp8.recipe=") + recipe, "model.hidden=4096", "model.ffn=14336",
                "model.heads=32", "model.kv_heads=8", "model.seq=4096", "model.vocab=32000",
                "run.skeleton=communication", "run.skeleton_times=" + kMachine.string()});
    const auto setup = train::Setup::make(deck.config, 0, 1);
    std::string said;
    require_skeleton_times(setup, said);
    SkeletonWaits waits(tests::exec(), setup, read_skeleton_times(setup, said));
    TaskList tasks(setup, times, 1, 1);
    train::record_step(setup, {}, [&](const Operation& o) { tasks.add(o); });
    double computing = 0;
    for (const Task& task : tasks.step().tasks)
      if (task.load == machine::Load::product || task.load == machine::Load::attention ||
          task.load == machine::Load::kernel)
        computing += task.seconds;
    ASSERT_GT(computing, 1e-3);
    EXPECT_NEAR(waits.step_s() / computing, 1, 1e-9);
    EXPECT_NE(said.find("waits as on"), std::string::npos);
  }
}

TEST(UnevenWaits, spread_what_they_should_and_keep_the_sum) {
  constexpr double kSpread = 12e-6;
  constexpr int kCollectives = 20000;
  UnevenWaits one({.calls_s = kSpread}, 0, 2), other({.calls_s = kSpread}, 1, 2), even({}, 0, 2);
  double sum = 0, squares = 0, waited = 0;
  for (int i = 0; i < kCollectives; ++i) {
    // Waits of 5 us each, of which the first ones alone cannot be shortened by enough.
    double a = 0, b = 0, e = 0;
    for (int wait = 0; wait < 20; ++wait) {
      a += one.next(5e-6);
      b += other.next(5e-6);
      e += even.next(5e-6);
    }
    EXPECT_NEAR(e, 100e-6, 1e-12);
    sum += a;
    squares += (a - 100e-6) * (a - 100e-6);
    waited += std::max(a, b) - b;
    for (UnevenWaits* rank : {&one, &other, &even}) rank->met();
  }
  EXPECT_NEAR(sum / kCollectives, 100e-6, 0.03 * kSpread);
  EXPECT_NEAR(std::sqrt(squares / kCollectives), kSpread, 0.03 * kSpread);
  EXPECT_NEAR(waited / kCollectives, kSpread / std::sqrt(std::numbers::pi), 0.03 * kSpread);  // the larger of two
  one.passed(3e-6);
  UnevenWaits again({}, 0, 2);
  again.passed(7e-6);
  EXPECT_EQ(again.next(5e-6), 0);
  EXPECT_NEAR(again.next(5e-6), 3e-6, 1e-15);
  EXPECT_EQ(again.next(5e-6), 5e-6);
}

TEST(UnevenWaits, ranks_and_steps_differ) {
  for (const int ranks : {2, 3, 8, 100}) {
    double sum = 0, squares = 0, nearest = 1;
    double before = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const double longer = UnevenWaits({.ranks = 0.01}, rank, ranks).next(1) - 1;
      sum += longer;
      squares += longer * longer;
      if (rank > 0) nearest = std::min(nearest, std::abs(longer - before));
      before = longer;
    }
    EXPECT_NEAR(sum, 0, 1e-9) << ranks;
    EXPECT_NEAR(std::sqrt(squares / (ranks - 1)), 0.01, 1e-9) << ranks;
    EXPECT_GT(nearest, 0.005) << ranks;  // tensor ranks are neighbours
  }
  UnevenWaits rank({.steps = 0.02}, 3, 8);
  double sum = 0, squares = 0;
  constexpr int kSteps = 20000;
  for (int step = 0; step < kSteps; ++step) {
    rank.begin_step();
    const double first = rank.next(1);
    EXPECT_EQ(rank.next(1), first);
    sum += first - 1;
    squares += (first - 1) * (first - 1);
  }
  EXPECT_NEAR(sum / kSteps, 0, 6e-4);
  EXPECT_NEAR(std::sqrt(squares / kSteps), 0.02, 6e-4);
}

TEST(SkeletonTimes, none_are_zero_and_said) {
  const auto setup = train::Setup::make(loaded({"run.skeleton=communication"}).config, 0, 1);
  std::string said;
  EXPECT_EQ(read_skeleton_times(setup, said), nullptr);
  EXPECT_NE(said.find("all waits are zero"), std::string::npos);
  EXPECT_EQ(SkeletonWaits(tests::exec(), setup, nullptr).step_s(), 0);
}

TEST(SkeletonTimes, what_a_machine_file_lacks_is_named) {
  const auto setup = train::Setup::make(
      loaded({"precision.compute=fp32", "run.skeleton=communication", "run.skeleton_times=" + kMachine.string()})
          .config,
      0, 1);
  std::string said;
  try {
    require_skeleton_times(setup, said);
    FAIL() << "nothing is thrown";
  } catch (const base::Error& e) {
    EXPECT_EQ(e.code(), base::ExitCode::deck);
    const std::string what = e.what();
    EXPECT_NE(what.find("fp32"), std::string::npos) << what;
    EXPECT_NE(what.find("h100-sxm.yaml"), std::string::npos) << what;
    EXPECT_NE(what.find("shard8 calibrate"), std::string::npos) << what;
  }
}

}  // namespace
}  // namespace shard8::project
