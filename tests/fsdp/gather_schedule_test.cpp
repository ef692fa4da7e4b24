// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "fsdp/weight_store.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/error.hpp"
#include "fsdp/weight_forms.hpp"
#include "tests/fsdp/units.hpp"

namespace shard8 {
namespace {

using fsdp::GatherSchedule;
using tests::kEmbedding;
using tests::kLayers;
using tests::kRoot;

/// prefetch + 1 rotating slots for the layers and their backward copies, and a slot each for the embedding and the
/// root.
GatherSchedule rotating(int prefetch) {
  const int n = prefetch + 1;
  std::vector<int> own(2 * kLayers + 2, -1);
  own[kEmbedding] = n;
  own[kRoot] = n + 1;
  return {own, n + 2, n, prefetch};
}

/// How many rotating slots held a copy in the last step.
int slots_used(const GatherSchedule& schedule, int prefetch) {
  return tests::rotating_slots_used(schedule, 2 * kLayers + 2, prefetch + 1);
}

/// A slot for every unit, as without reshard_after_forward.
GatherSchedule without_reshard(int prefetch) {
  std::vector<int> own;
  for (int u = 0; u < kLayers + 2; ++u) own.push_back(u);
  return {own, kLayers + 2, 0, prefetch};
}

/// The copy of each visit. With `two` a layer has two copies; the id of layer l's backward copy is kRoot + l.
std::vector<int> copies(const std::vector<fsdp::Visit>& visits, bool two = false) {
  std::vector<int> order;
  for (const auto& [unit, pass] : visits) order.push_back(two && pass == fsdp::Pass::backward ? kRoot + unit : unit);
  return order;
}

/// Runs a step. Returns for each visit "copy:" and the gathers that start, as "copy", or as "copy@slot" if
/// `with_slots`.
std::string run_step(GatherSchedule& schedule, const std::vector<int>& visits, bool tied = false,
                     bool with_slots = false) {
  std::string text;
  schedule.begin_step(visits);
  for (std::size_t i = 0; i < visits.size(); ++i) {
    const int copy = visits[i];
    const bool started_before = schedule.slot_of(copy) >= 0;
    std::vector<int> busy;
    for (int c = 0; c <= kRoot + kLayers; ++c)
      if (schedule.in_use(c)) busy.push_back(schedule.slot_of(c));
    text += fmt::format("{}{}:", i == 0 ? "" : " ", copy);
    const char* separator = "";
    for (const auto& start : schedule.acquire(copy)) {
      EXPECT_TRUE(started_before || start.copy == copy || *separator != 0)
          << "the gather of the copy in use starts first";
      EXPECT_EQ(std::count(busy.begin(), busy.end(), start.slot), 0) << "slot " << start.slot << " is in use";
      EXPECT_EQ(schedule.slot_of(start.copy), start.slot);
      text += separator + (with_slots ? fmt::format("{}@{}", start.copy, start.slot) : fmt::format("{}", start.copy));
      separator = ",";
    }
    EXPECT_TRUE(schedule.in_use(copy));
    // A tied root is in use until the end of forward.
    if (!(tied && copy == kRoot)) schedule.release(copy);
    const bool end_of_forward = copy == kLayers && visits[i - 1] == kLayers - 1;
    if (tied && end_of_forward) {
      EXPECT_TRUE(schedule.in_use(kRoot));
      schedule.release(kRoot);
    }
  }
  return text;
}

TEST(GatherSchedule, PrefetchOfOne) {
  auto schedule = rotating(1);
  // When backward begins, layers 4 and 3 are still in their slots. Backward visits layers in reverse order.
  EXPECT_EQ(run_step(schedule, copies(tests::visits(1)), false, true),
            "0:0@2,1@0 1:2@1 2:3@0 3:4@1 4:5@3 5: 4: 3:2@1 2:1@0 1:");
  EXPECT_EQ(slots_used(schedule, 1), 2);
}

// The embedding and the root share a slot. The gather of the root starts after the embedding is released.
TEST(GatherSchedule, TwoUnitsShareASlot) {
  const auto shared = [](int prefetch) {
    std::vector<int> own(2 * kLayers + 2, -1);
    own[kEmbedding] = own[kRoot] = prefetch + 1;
    return GatherSchedule(own, prefetch + 2, prefetch + 1, prefetch);
  };
  auto one = shared(1);
  EXPECT_EQ(run_step(one, copies(tests::visits(1)), false, true),
            "0:0@2,1@0 1:2@1 2:3@0 3:4@1 4:5@2 5: 4: 3:2@1 2:1@0 1:");
  auto many = shared(5);
  EXPECT_EQ(run_step(many, copies(tests::visits(1)), false, true),
            "0:0@6,1@0,2@1,3@2,4@3 1:5@6 2: 3: 4: 5: 4: 3: 2: 1:");
}

TEST(GatherSchedule, NoPrefetch) {
  auto schedule = rotating(0);
  EXPECT_EQ(run_step(schedule, copies(tests::visits(1))), "0:0 1:1 2:2 3:3 4:4 5:5 4: 3:3 2:2 1:1");
  EXPECT_EQ(slots_used(schedule, 0), 1);
}

TEST(GatherSchedule, PrefetchOfTwo) {
  auto schedule = rotating(2);
  EXPECT_EQ(run_step(schedule, copies(tests::visits(1))), "0:0,1,2 1:3 2:4 3:5 4: 5: 4: 3:1 2: 1:");
  EXPECT_EQ(slots_used(schedule, 2), 3);
}

TEST(GatherSchedule, PrefetchOfThreeHoldsFourLayers) {
  auto schedule = rotating(3);
  EXPECT_EQ(run_step(schedule, copies(tests::visits(1))), "0:0,1,2,3 1:4 2:5 3: 4: 5: 4: 3: 2: 1:");
  EXPECT_EQ(slots_used(schedule, 3), 4);
}

TEST(GatherSchedule, AheadStartsTheGathersOfTheFirstAcquire) {
  for (const int prefetch : {0, 1, 3}) {
    auto schedule = rotating(prefetch), without_ahead = rotating(prefetch);
    const auto order = copies(tests::visits(1));
    schedule.begin_step(order);
    without_ahead.begin_step(order);
    const auto started = [](std::span<const GatherSchedule::Start> starts) {
      std::vector<std::pair<int, int>> all;
      for (const auto& start : starts) all.emplace_back(start.copy, start.slot);
      return all;
    };
    const auto ahead = started(schedule.ahead());
    EXPECT_EQ(ahead.size(), static_cast<std::size_t>(prefetch) + 1);
    EXPECT_EQ(ahead, started(without_ahead.acquire(order[0])));
    EXPECT_TRUE(schedule.acquire(order[0]).empty());
    schedule.release(order[0]);
    without_ahead.release(order[0]);
    EXPECT_EQ(started(schedule.acquire(order[1])), started(without_ahead.acquire(order[1])));
  }
}

// The embedding and the root stay in their slots over the micro-batches. Layer 1 is used at the end of one micro-batch
// and at the begin of the next.
TEST(GatherSchedule, MicroBatches) {
  auto schedule = rotating(1);
  EXPECT_EQ(run_step(schedule, copies(tests::visits(2))),
            "0:0,1 1:2 2:3 3:4 4:5 5: 4: 3:2 2:1 1: 0: 1: 2:3 3:4 4: 5: 4: 3:2 2:1 1:");
  EXPECT_EQ(slots_used(schedule, 1), 2);
}

TEST(GatherSchedule, TiedRootStaysInUse) {
  auto schedule = rotating(1);
  EXPECT_EQ(run_step(schedule, copies(tests::visits(2, true)), true),
            "5:5,1 1:2 2:3 3:4 4: 4: 3:2 2:1 1: 5: 1: 2:3 3:4 4: 4: 3:2 2:1 1:");
}

TEST(GatherSchedule, WeightsOfTheLastStepAreStale) {
  auto schedule = rotating(1);
  const auto first = run_step(schedule, copies(tests::visits(1)));
  for (int step = 0; step < 3; ++step) EXPECT_EQ(run_step(schedule, copies(tests::visits(1))), first);
}

TEST(GatherSchedule, WithoutReshardEachUnitIsGatheredOnce) {
  for (const int prefetch : {0, 1, 3}) {
    auto schedule = without_reshard(prefetch);
    for (int step = 0; step < 2; ++step) {
      std::vector<int> gathers(kLayers + 2);
      schedule.begin_step(copies(tests::visits(3)));
      for (const int copy : copies(tests::visits(3))) {
        for (const auto& start : schedule.acquire(copy)) ++gathers[static_cast<std::size_t>(start.copy)];
        schedule.release(copy);
      }
      EXPECT_EQ(gathers, std::vector<int>(kLayers + 2, 1)) << "prefetch " << prefetch;
    }
  }
}

TEST(GatherSchedule, HoldsPrefetchPlusOneLayersWithFewestGathers) {
  for (int prefetch = 0; prefetch <= 3; ++prefetch) {
    for (const bool tied : {false, true}) {
      for (const int micro_batches : {1, 2, 5}) {
        SCOPED_TRACE(fmt::format("prefetch {}, tied {}, micro-batches {}", prefetch, tied, micro_batches));
        auto schedule = rotating(prefetch);
        const auto order = copies(tests::visits(micro_batches, tied));
        const auto text = run_step(schedule, order, tied);
        EXPECT_LE(slots_used(schedule, prefetch), prefetch + 1);
        // The fewest gathers possible (Belady 1966): in each later pass, of the layers that no slot holds.
        std::ptrdiff_t starts = 0;
        for (std::size_t i = 0; i + 1 < text.size(); ++i)
          if (text[i] == ',' || (text[i] == ':' && text[i + 1] != ' ')) ++starts;
        const std::ptrdiff_t others = tied ? 1 : 2;
        const std::ptrdiff_t passes = 2 * micro_batches - 1;
        EXPECT_EQ(starts, others + kLayers + passes * std::max(0, kLayers - (prefetch + 1)));
      }
    }
  }
}

// Layer l's backward copy is 5 + l. It is gathered even if the forward copy is still in its slot.
TEST(GatherSchedule, TwoCopiesAreGatheredForEachPass) {
  const auto run = [](int prefetch, const std::vector<fsdp::Visit>& visits) {
    auto schedule = rotating(prefetch);
    auto text = run_step(schedule, copies(visits, true));
    EXPECT_EQ(slots_used(schedule, prefetch), prefetch + 1);
    return text;
  };
  EXPECT_EQ(run(0, tests::visits(1)), "0:0 1:1 2:2 3:3 4:4 5:5 9:9 8:8 7:7 6:6");
  EXPECT_EQ(run(1, tests::visits(1)), "0:0,1 1:2 2:3 3:4 4:5 5:9 9:8 8:7 7:6 6:");
  EXPECT_EQ(run(2, tests::visits(1)), "0:0,1,2 1:3 2:4 3:5 4:9 5:8 9:7 8:6 7: 6:");
  EXPECT_EQ(run(3, tests::visits(1)), "0:0,1,2,3 1:4 2:5 3:9 4:8 5:7 9:6 8: 7: 6:");
  EXPECT_EQ(run(1, tests::visits(2)), "0:0,1 1:2 2:3 3:4 4:5 5:9 9:8 8:7 7:6 6: 0:1 1:2 2:3 3:4 4: 5:9 9:8 8:7 7:6 6:");
  // With recomputation a layer uses its forward copy, then its backward copy. Layer 4 is still in its slot.
  EXPECT_EQ(run(1, tests::visits(1, false, true)), "0:0,1 1:2 2:3 3:4 4:5 5: 4:9 9:3 3:8 8:2 2:7 7:1 1:6 6:");
}

TEST(GatherSchedule, MisuseIsAnError) {
  auto schedule = rotating(1);
  schedule.begin_step({1, 2});
  EXPECT_THROW(schedule.acquire(2), base::Error);
  EXPECT_THROW(schedule.release(1), base::Error);
  schedule.acquire(1);
  EXPECT_THROW(schedule.begin_step({1}), base::Error);
  schedule.release(1);
  schedule.acquire(2);
  schedule.release(2);
  EXPECT_THROW(schedule.acquire(1), base::Error);
}

TEST(GatherSchedule, MoreCopiesInUseThanSlotsIsAnError) {
  auto schedule = rotating(0);
  schedule.begin_step({1, 2});
  schedule.acquire(1);
  EXPECT_THROW(schedule.acquire(2), base::Error);
}

}  // namespace
}  // namespace shard8
