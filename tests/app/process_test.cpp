// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "app/process.hpp"

namespace shard8 {
namespace {

TEST(MemoryGrowth, IsWhatIsTakenSince) {
  EXPECT_EQ(app::memory_growth(100, 150), 50U);
  EXPECT_EQ(app::memory_growth(100, 100), 0U);
}

// Another process may free memory of the device while this one runs.
TEST(MemoryGrowth, IsNothingWhereLessIsTaken) { EXPECT_EQ(app::memory_growth(100, 99), 0U); }

TEST(ProcessMemory, GrowsByWhatIsWritten) {
  constexpr std::size_t kBytes = std::size_t{64} << 20;
  const auto before = app::process_memory();
  const std::vector<std::byte> written(kBytes, std::byte{1});
  EXPECT_GE(app::memory_growth(before.resident, app::process_memory().resident), kBytes * 9 / 10);
  EXPECT_GE(app::process_memory().peak, app::process_memory().resident);
}

}  // namespace
}  // namespace shard8
