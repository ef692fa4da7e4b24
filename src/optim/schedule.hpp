// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "deck/config.hpp"

namespace shard8::optim {

/// Learning rate of step s (from 0): lr·(s+1)/warmup while s < warmup, then
/// min_lr + (lr − min_lr)/2·(1 + cos(π(s − warmup)/(decay_steps − warmup))), min_lr after decay_steps
/// (linear warm-up and cosine decay, Loshchilov & Hutter 2017).
double learning_rate(const deck::OptimizerConfig& config, std::int64_t step);

}  // namespace shard8::optim
