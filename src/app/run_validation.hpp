// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "app/run_energy.hpp"
#include "app/run_trace.hpp"
#include "base/log.hpp"
#include "comm/communicator.hpp"
#include "data/batch.hpp"
#include "deck/config.hpp"
#include "profile/collective_log.hpp"
#include "profile/figures.hpp"
#include "train/stopping.hpp"
#include "train/trainer.hpp"

namespace shard8::app {

/// The validations of a run: when one is due, and what all of them found.
class RunValidation {
 public:
  /// `loader` has the validation's data.
  RunValidation(const data::Loader& loader, const deck::RunConfig& run);

  /// What a validation uses, and what counts steps and so stands still meanwhile. `tracer` may be null.
  struct Around {
    train::Trainer& trainer;
    const comm::Communicator& world;
    train::Stopping& stopping;
    profile::CollectiveLog& log;
    RunTracer* tracer;
    RunEnergy& energy;
    base::Logger& logger;
  };
  /// Validates behind a step where a validation is due; otherwise nothing. A run that was asked to stop at once has no
  /// loss there. Its collectives, energy and spans are of no step. Collective.
  std::optional<train::Validation> after_step(const train::StepResult& step, const Around& around);

  const profile::ValidationFigures& figures() const { return figures_; }
  /// Of all validations, also of those that were stopped, on this rank.
  double seconds() const { return seconds_; }

 private:
  void note(const train::Validation& result, std::int64_t step, base::Logger& logger);

  profile::ValidationFigures figures_;
  double seconds_ = 0;
};

}  // namespace shard8::app
