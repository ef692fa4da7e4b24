// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/collective_log.hpp"

#include <gtest/gtest.h>

namespace shard8::profile {
namespace {

CollectiveKey key(Collective op, int n) { return {op, "shard", n, "fp32", 1000000}; }

TEST(CollectiveLog, adds_up_by_kind) {
  CollectiveLog log;
  log.record(key(Collective::all_gather, 4), 2, 1);
  log.record(key(Collective::all_gather, 4), 3, 0.5);
  log.record(key(Collective::reduce_scatter, 4), 7, 7);
  log.set_measuring(false);
  log.record(key(Collective::all_gather, 4), 100, 100);
  ASSERT_EQ(log.entries().size(), 2u);
  const CollectiveStats& stats = log.entries().at(key(Collective::all_gather, 4));
  EXPECT_EQ(stats.calls, 2u);
  EXPECT_EQ(stats.total_s, 5);
  EXPECT_EQ(stats.exposed_s, 1.5);
}

// The factors of nccl-tests' PERFORMANCE.md.
TEST(CollectiveLog, bandwidths_as_nccl_tests) {
  const double s = 0.001;  // 1 MB in 1 ms: 1 GB/s
  EXPECT_DOUBLE_EQ(algbw(key(Collective::all_reduce, 4), s), 1e9);
  EXPECT_DOUBLE_EQ(busbw(key(Collective::all_reduce, 4), s), 1.5e9);
  EXPECT_DOUBLE_EQ(busbw(key(Collective::all_reduce, 2), s), 1e9);
  EXPECT_DOUBLE_EQ(busbw(key(Collective::all_gather, 4), s), 0.75e9);
  EXPECT_DOUBLE_EQ(busbw(key(Collective::reduce_scatter, 8), s), 0.875e9);
  EXPECT_EQ(algbw(key(Collective::all_gather, 4), 0), 0);
}

}  // namespace
}  // namespace shard8::profile
