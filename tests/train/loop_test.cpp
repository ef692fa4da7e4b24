// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "train/stopping.hpp"

#include <gtest/gtest.h>

#include "comm/agree.hpp"
#include "tests/support/compare.hpp"
#include "tests/train/decks.hpp"
#include "tests/train/training.hpp"

namespace shard8 {
namespace {

using train::LoopHooks;
using train::LoopResult;
using train::Stop;
using Numbers = std::vector<std::int64_t>;

constexpr std::int64_t kSteps = 12;

/// A llama sharded over all ranks. It does not clip, so the next step's first gathers are under way between two steps.
deck::Config config() {
  test::Variant v;
  v.mesh = {1, test::world_size(), 1};
  deck::Config deck = test::small_deck(v, static_cast<int>(kSteps));
  deck.optimizer.clip = 0;
  return deck;
}

LoopHooks stop_before(std::int64_t step) {
  LoopHooks hooks;
  hooks.stops_before = [step](std::int64_t next) { return next == step; };
  return hooks;
}

/// What a loop says of its steps.
struct Heard {
  Numbers steps;
  std::vector<double> losses;

  LoopHooks hooks(LoopHooks others = {}) {
    others.after = [this](const train::StepResult& result) {
      steps.push_back(result.step);
      losses.push_back(result.loss);
    };
    return others;
  }
};

TEST(Loop, StartsAtAnyStepAndStopsWhenAsked) {
  test::Training whole(config(), MPI_COMM_WORLD), parts(config(), MPI_COMM_WORLD);
  Heard of_whole, of_parts;
  const LoopResult all = train::train(whole.trainer(), {.first = 0, .end = kSteps}, of_whole.hooks());
  EXPECT_EQ(all.why, Stop::finished);
  EXPECT_EQ(all.steps, kSteps);

  const LoopResult first = train::train(parts.trainer(), {.first = 0, .end = 5}, of_parts.hooks());
  const LoopResult middle = train::train(parts.trainer(), {.first = 5, .end = kSteps}, of_parts.hooks(stop_before(9)));
  const LoopResult last =
      train::train(parts.trainer(), {.first = 9, .end = kSteps}, of_parts.hooks(stop_before(kSteps)));
  EXPECT_EQ(first.why, Stop::finished);
  EXPECT_EQ(middle.why, Stop::requested);
  EXPECT_EQ(last.why, Stop::finished);
  EXPECT_EQ(first.steps, 5);
  EXPECT_EQ(middle.steps, 4);
  EXPECT_EQ(last.steps, 3);
  EXPECT_EQ(middle.last.step, 8);
  EXPECT_EQ(last.last.loss, all.last.loss);
  EXPECT_EQ(of_parts.steps, of_whole.steps);
  EXPECT_TRUE(tests::same_bits(of_parts.losses, of_whole.losses));
}

// The last step has begun gathers of the next one, which does not come.
TEST(Loop, StopsWithNothingUnderWay) {
  test::Training training(config(), MPI_COMM_WORLD);
  std::int64_t under_way = 0, begun = 0;
  training.log().set_watcher(
      {[&](const profile::CollectiveKey&) { ++under_way; }, [&](const profile::CollectiveKey&) { --under_way; }});
  LoopHooks hooks = stop_before(4);
  hooks.after = [&](const train::StepResult&) { begun = under_way; };
  int saves = 0;
  hooks.save = [&](std::int64_t done) {
    EXPECT_EQ(done, 4);
    ++saves;
    training.mesh().world.record_device_calls();
    EXPECT_EQ(under_way, 0);
    return true;
  };
  const LoopResult stopped = train::train(training.trainer(), {.first = 0, .end = kSteps}, hooks);
  EXPECT_EQ(stopped.steps, 4);
  EXPECT_TRUE(stopped.saved);
  EXPECT_EQ(saves, 1);
  if (test::world_size() > 1) {
    EXPECT_GT(begun, 0);
  }
  EXPECT_FALSE(train::train(training.trainer(), {.first = 4, .end = kSteps}, {}).saved);
}

// Every rank learns the largest stop request of all ranks in the step at whose end it was made.
TEST(Loop, GivesEveryRankTheLargestStopRequest) {
  test::Training training(config(), MPI_COMM_WORLD);
  const int ranks = test::world_size();
  const auto rank = static_cast<std::uint64_t>(training.mesh().world.rank());
  std::int64_t step = 0;
  training.trainer().stop_requests_from([&]() -> std::uint64_t { return step % 2 == 0 ? 0 : 1 + rank; });
  LoopHooks hooks;
  hooks.before = [&](std::int64_t s) { step = s; };
  hooks.after = [&](const train::StepResult& result) {
    EXPECT_EQ(result.stop_request, result.step % 2 == 0 ? 0U : static_cast<std::uint64_t>(ranks));
  };
  train::train(training.trainer(), {.first = 0, .end = 4}, hooks);
}

TEST(Loop, CallsHooksAroundEveryStep) {
  test::Training training(config(), MPI_COMM_WORLD);
  Numbers before, after, asked;
  LoopHooks hooks;
  hooks.before = [&](std::int64_t step) {
    EXPECT_EQ(before.size(), after.size());
    before.push_back(step);
  };
  hooks.after = [&](const train::StepResult& result) { after.push_back(result.step); };
  hooks.stops_before = [&](std::int64_t next) {
    asked.push_back(next);
    return false;
  };
  train::train(training.trainer(), {.first = 3, .end = 6}, hooks);
  EXPECT_EQ(before, (Numbers{3, 4, 5}));
  EXPECT_EQ(after, before);
  EXPECT_EQ(asked, (Numbers{4, 5}));  // not asked before the first step: a run trains at least one
}

// The steps left out of the figures are the first steps of this run, whatever their numbers are.
TEST(Loop, TimesAllButTheFirstStepsOfThisRun) {
  EXPECT_EQ((train::Steps{.first = 0, .end = 20, .timing_skip = 5}.first_timed()), 5);
  EXPECT_EQ((train::Steps{.first = 100, .end = 120, .timing_skip = 5}.first_timed()), 105);
}

TEST(Loop, EndsOnEveryRankWhenTrainingDiverges) {
  deck::Config deck = config();
  deck.optimizer.lr = deck.optimizer.min_lr = 1e30;
  test::Training training(deck, MPI_COMM_WORLD);
  EXPECT_THROW(train::train(training.trainer(), {.first = 0, .end = kSteps}, {}), comm::AgreedError);
}

}  // namespace
}  // namespace shard8
