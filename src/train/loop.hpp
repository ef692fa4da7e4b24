// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include "train/trainer.hpp"

namespace shard8::train {

/// The steps that a run trains, by number: [first, end).
struct Steps {
  std::int64_t first = 0;
  std::int64_t end = 0;
  std::int64_t timing_skip = 0;  ///< the number of this run's first steps that are left out of its figures

  std::int64_t first_timed() const { return first + timing_skip; }
};

/// Functions that the loop calls on this rank. Each may be empty.
struct LoopHooks {
  std::function<void(std::int64_t step)> before;  ///< called before each step
  /// Called after each step that did not diverge. What it returns becomes StepResult::validation, and its stop request
  /// the step's if it is larger. Every rank must decide alike.
  std::function<std::optional<Validation>(const StepResult& result)> validate;
  std::function<void(const StepResult& result)> after;  ///< called after each step, also one that diverged
  /// Called after each step when `done` steps have been trained in all, the last one included. The next step's first
  /// gathers may be under way.
  std::function<void(std::int64_t done)> between;
  /// Whether the run is to stop before the step `next`, although steps are left. Called between two steps. Every rank
  /// must return the same.
  std::function<bool(std::int64_t next)> stops_before;
  /// Called when the run stops in this way, with no collective under way. Returns whether a checkpoint of this run
  /// exists, from which it can go on; writing one has its place here. Every rank must answer alike.
  std::function<bool(std::int64_t done)> save;
  /// Called before an AgreedError leaves the loop: what was begun before it, such as a checkpoint, can be ended.
  std::function<void()> failed;
};

enum class Stop : std::uint8_t {
  finished,   ///< the last step was trained
  requested,  ///< LoopHooks::stops_before returned true
};

struct LoopResult {
  std::int64_t steps = 0;  ///< steps that were trained
  StepResult last{};       ///< of the last one
  Stop why = Stop::finished;
  bool saved = false;  ///< what LoopHooks::save said
};

/// Trains steps.first, steps.first + 1, ... Collective. AgreedError(failed) when the loss or the gradient norm of a
/// step is not finite; errors of Trainer::step().
LoopResult train(Trainer& trainer, const Steps& steps, const LoopHooks& hooks);

}  // namespace shard8::train
