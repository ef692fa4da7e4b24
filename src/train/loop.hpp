// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "train/trainer.hpp"

namespace shard8::train {

/// What is done beside training, on this rank.
struct LoopHooks {
  std::function<void(std::int64_t step)> before;        ///< timing begins to count, say
  std::function<void(const StepResult& result)> after;  ///< metrics, progress
};

/// Trains the deck's steps. Error(failed), the same on every rank, when the loss or the gradient
/// norm is no finite number.
std::vector<StepResult> train(Trainer& trainer, const deck::RunConfig& run, const LoopHooks& hooks);

}  // namespace shard8::train
