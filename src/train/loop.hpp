// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "train/trainer.hpp"

namespace shard8::train {

/// The steps of a run, by number.
struct Steps {
  std::int64_t first = 0;        ///< that this run trains
  std::int64_t end = 0;          ///< behind the last
  std::int64_t timing_skip = 0;  ///< so many of this run's first steps are left out of its figures

  std::int64_t first_timed() const { return first + timing_skip; }
};

/// Functions that the loop calls on this rank. Each may be empty.
struct LoopHooks {
  std::function<void(std::int64_t step)> before;        ///< called before each step
  std::function<void(const StepResult& result)> after;  ///< called after each step
  /// Whether the run is to stop before the step of this number, though it is not the end. Asked between steps. Every
  /// rank must answer alike.
  std::function<bool(std::int64_t next)> stops_before;
};

enum class Stop : std::uint8_t {
  finished,  ///< the last step was trained
  asked,     ///< LoopHooks::stops_before said so
};

struct LoopResult {
  std::vector<StepResult> steps;  ///< that were trained
  Stop why = Stop::finished;
};

/// Trains the steps from `first` on. Error(failed), the same on every rank, when the loss or the gradient norm is no
/// finite number.
LoopResult train(Trainer& trainer, const Steps& steps, const LoopHooks& hooks);

}  // namespace shard8::train
