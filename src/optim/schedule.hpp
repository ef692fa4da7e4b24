// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "deck/config.hpp"

namespace shard8::optim {

/// The learning rate of step s, counted from 0: linear warm-up, then cosine decay (Loshchilov & Hutter 2017).
///   s < warmup:      lr·(s+1)/warmup
///   s < decay_steps: min_lr + (lr − min_lr)/2·(1 + cos(π(s − warmup)/(decay_steps − warmup)))
///   after:           min_lr
double learning_rate(const deck::OptimizerConfig& config, std::int64_t step);

}  // namespace shard8::optim
