// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "optim/schedule.hpp"

#include <cmath>
#include <numbers>

namespace shard8::optim {

double learning_rate(const deck::OptimizerConfig& c, std::int64_t step) {
  if (step < c.warmup) return c.lr * static_cast<double>(step + 1) / static_cast<double>(c.warmup);
  if (step >= c.decay_steps) return c.min_lr;
  const double done = static_cast<double>(step - c.warmup) / static_cast<double>(c.decay_steps - c.warmup);
  return c.min_lr + (c.lr - c.min_lr) / 2 * (1 + std::cos(std::numbers::pi * done));
}

}  // namespace shard8::optim
