// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "train/skeleton_memory.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "base/error.hpp"

namespace shard8::train {
namespace {

constexpr std::size_t kPage = ReservedMemory::kPage;

TEST(ReservedMemory, committed_pages_are_zero_and_can_be_written) {
  ReservedMemory memory(8 * kPage);
  memory.commit(kPage + 100, 3 * kPage - 1);
  std::byte* const begin = memory.data() + kPage;
  EXPECT_TRUE(std::all_of(begin, begin + 2 * kPage, [](std::byte b) { return b == std::byte{0}; }));
  std::fill_n(begin, 2 * kPage, std::byte{7});
  const ReservedMemory moved(std::move(memory));
  EXPECT_EQ(moved.data()[3 * kPage - 1], std::byte{7});
}

TEST(ReservedMemory, takes_no_memory_for_addresses_alone) {
  const ReservedMemory memory(std::size_t{1} << 44);  // 16 TB
  EXPECT_NE(memory.data(), nullptr);
}

TEST(ReservedMemory, the_last_page_may_be_cut) {
  ReservedMemory memory(kPage + 10);
  memory.commit(kPage, kPage + 10);
  memory.data()[kPage + 9] = std::byte{1};
  memory.commit(5, 5);  // an empty range may be any page's
}

/// How a process ends that accesses memory which nobody committed. AddressSanitizer reports the signal and exits.
#if defined(__SANITIZE_ADDRESS__)
const testing::ExitedWithCode kEnds(1);
#else
const testing::KilledBySignal kEnds(SIGSEGV);
#endif

TEST(ReservedMemoryDeathTest, an_access_to_other_pages_ends_the_process) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  ReservedMemory memory(4 * kPage);
  memory.commit(kPage, 2 * kPage);
  volatile std::byte* const data = memory.data();
  EXPECT_EXIT(data[0] = std::byte{1}, kEnds, "");
  EXPECT_EXIT(data[2 * kPage] = std::byte{1}, kEnds, "");
  EXPECT_EXIT(static_cast<void>(data[3 * kPage]), kEnds, "");
}

}  // namespace
}  // namespace shard8::train
