// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "optim/adamw.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace shard8::optim {
namespace {

deck::OptimizerConfig config(std::int64_t warmup, std::int64_t decay_steps) {
  deck::OptimizerConfig c;
  c.lr = 3e-3;
  c.min_lr = 3e-4;
  c.warmup = warmup;
  c.decay_steps = decay_steps;
  return c;
}

TEST(Schedule, WarmsUpLinearly) {
  const auto c = config(4, 20);
  for (int s = 0; s < 4; ++s) EXPECT_DOUBLE_EQ(learning_rate(c, s), 3e-3 * (s + 1) / 4);
}

TEST(Schedule, DecaysAlongACosine) {
  const auto c = config(4, 20);
  EXPECT_DOUBLE_EQ(learning_rate(c, 4), 3e-3);
  EXPECT_DOUBLE_EQ(learning_rate(c, 12), (3e-3 + 3e-4) / 2);  // half-way
  EXPECT_DOUBLE_EQ(learning_rate(c, 16), 3e-4 + 2.7e-3 / 2 * (1 + std::cos(std::numbers::pi * 0.75)));
  for (int s = 4; s < 25; ++s) EXPECT_LE(learning_rate(c, s + 1), learning_rate(c, s));
}

TEST(Schedule, StaysAtTheMinimumAfterTheDecay) {
  EXPECT_DOUBLE_EQ(learning_rate(config(4, 20), 20), 3e-4);
  EXPECT_DOUBLE_EQ(learning_rate(config(4, 20), 1000000), 3e-4);
}

TEST(Schedule, NeedsNoWarmUp) { EXPECT_DOUBLE_EQ(learning_rate(config(0, 20), 0), 3e-3); }

}  // namespace
}  // namespace shard8::optim
