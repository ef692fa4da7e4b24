// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <set>
#include <string_view>
#include <vector>

#include "tests/train/allocation_counts.hpp"
#include "tests/train/decks.hpp"
#include "tests/train/training.hpp"

// A step after the first one allocates nothing on the thread that trains. cuDNN allocates as often in each of these
// steps.

namespace shard8 {
namespace {

using test::AllocationCounts;

constexpr int kSteps = 6;

AllocationCounts taken(test::Training& training, std::int64_t step) {
  const AllocationCounts before = test::allocation_counts();
  training.trainer().step(step);
  const AllocationCounts after = test::allocation_counts();
  return {after.host - before.host, after.large - before.large, after.device - before.device,
          after.attention - before.attention};
}

void run(const std::string& name, const deck::Config& config) {
  SCOPED_TRACE(name);
  test::Training training(config, MPI_COMM_WORLD);
  training.run(0, 1);
  const AllocationCounts second = taken(training, 1);
  EXPECT_EQ(second.host, 0U) << "in step 1";
  for (std::int64_t s = 2; s < kSteps; ++s) {
    const AllocationCounts counts = taken(training, s);
    EXPECT_EQ(counts.host, 0U) << "in step " << s;
    EXPECT_EQ(counts.attention, second.attention) << "in step " << s;
  }
}

TEST(HostAllocation, NoneAfterTheFirstStep) {
  const int ranks = test::world_size();
  for (const std::array<int, 3>& mesh : std::set<std::array<int, 3>>{{1, ranks, 1}, {1, 1, ranks}, {ranks, 1, 1}}) {
    test::Variant plain;
    plain.mesh = mesh;
    plain.micro_batch = 2;
    for (const char* compute : {"fp32", "bf16"}) {
      plain.compute = compute;
      run(test::name_of(plain), test::small_deck(plain, kSteps));
    }
    for (const char* recipe : {"delayed", "current", "block", "mxfp8"}) {
      // 256 columns on four ranks are less than a block of 128 on each.
      if (recipe == std::string_view("block") && mesh[2] > 2) continue;
      const test::Fp8Variant v{mesh, recipe, mesh[2]};
      run(test::name_of(v), test::fp8_deck(v, kSteps, 1, 2 * ranks));
    }
  }
}

TEST(HostAllocation, IsSeen) {
  const AllocationCounts before = test::allocation_counts();
  const auto small = std::make_unique<std::vector<int>>();
  const std::vector<std::byte> large(AllocationCounts::kLarge);
  const AllocationCounts after = test::allocation_counts();
  EXPECT_EQ(after.host - before.host, 2U);
  EXPECT_EQ(after.large - before.large, 1U);
  EXPECT_EQ(small->size() + large.size(), AllocationCounts::kLarge);
}

}  // namespace
}  // namespace shard8
