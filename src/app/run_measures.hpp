// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.hpp"
#include "comm/communicator.hpp"
#include "comm/node.hpp"
#include "data/batch.hpp"
#include "deck/config.hpp"
#include "profile/collective_log.hpp"
#include "profile/energy.hpp"
#include "profile/figures.hpp"
#include "profile/metrics.hpp"
#include "profile/trace_recorder.hpp"
#include "train/assembly.hpp"
#include "train/stopping.hpp"
#include "train/trainer.hpp"

namespace shard8::app {

/// Counts the energy of a run, each counter on one rank. What cannot be read is kept, to be said in the report.
class RunEnergy {
 public:
  /// Looks for counters and begins to count. Collective over `world`.
  RunEnergy(const comm::Communicator& world, const comm::Node& node);

  void begin() { meter_->begin(); }  ///< the measured steps begin
  void end() { meter_->end(); }      ///< and end
  /// Work outside of the steps begins and ends. The joules of this work are in no window(). Collective.
  void pause(const comm::Communicator& world);
  void resume(const comm::Communicator& world);
  /// What this rank counted. To be called when the measured steps are over.
  profile::EnergyCounts counts();

  struct Window {
    std::optional<double> joules{};
    std::int64_t steps = 0;
  };
  /// The first window begins. To be called before the first step. Collective.
  void begin_windows(const comm::Communicator& world);
  /// To be called before a step that is `logged`, and before all others: counters are read while a logged step
  /// computes, so that no step waits for them.
  void step_begins(bool logged);
  /// To be called after each step. After a logged step, returns the joules of the job from the beginning of the logged
  /// step before it, or of the first step, to its own beginning, and the number of steps in between; nothing if they
  /// are not known. Collective.
  Window step_over(const comm::Communicator& world, bool logged);

 private:
  profile::EnergyDirectory directory_;
  std::optional<profile::EnergyMeter> meter_;
  std::optional<double> since_last(const comm::Communicator& world);

  std::int64_t steps_ = 0;                  ///< steps since the last logged step began
  std::int64_t of_window_ = 0;              ///< steps of the window that ended as the logged step began
  std::optional<double> joules_;            ///< of the job, at the last call of since_last()
  std::optional<double> before_pause_ = 0;  ///< joules of the window before pause(); nothing: not known
};

/// A line of metrics.jsonl for a step of the training `run`, which must outlive it. `unit_norms` and `weight_norms`
/// as in Trainer, of a model with so many `layers`.
profile::StepMetrics metrics_of(const train::StepResult& step, std::string_view run, const RunEnergy::Window& energy,
                                std::span<const double> unit_norms, std::span<const double> weight_norms,
                                std::int64_t layers);

/// The trace of a run (deck keys output.trace and output.trace_steps). Made when the training is set up, before its
/// first step. While a RunTracer lives, timer and log tell it what happens.
class RunTracer {
 public:
  /// The references must outlive the object. Collective.
  RunTracer(train::Assembly& assembly, const train::Steps& steps, profile::CollectiveLog& log,
            const comm::Communicator& world);
  RunTracer(const RunTracer&) = delete;
  RunTracer& operator=(const RunTracer&) = delete;
  ~RunTracer();

  /// To be called after each step, before the next step begins. `step` is the number of the step that has ended.
  void after_step(std::int64_t step);
  /// Between two steps: the collectives until resume() are of no step.
  void pause() { log_.set_trace(nullptr); }
  void resume() { log_.set_trace(&recorder_); }
  /// Writes this rank's file. Returns a line for rank 0 to print. Collective, after the last step, with no collective
  /// under way. AgreedError(environment) if a file cannot be written.
  std::string write(const std::string& host);

 private:
  void set_origin();

  train::Assembly& assembly_;
  profile::CollectiveLog& log_;
  const comm::Communicator& world_;
  profile::TraceRecorder recorder_;
  std::vector<comm::ClockReading> clock_;
};

/// This rank's file of a deck's trace.
std::filesystem::path trace_file(const deck::OutputConfig& config, int rank);

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
  /// Validates behind a step where a validation is due; otherwise nothing. A run that was requested to stop at once has
  /// no loss there. The collectives, energy and spans of a validation belong to no step. Collective.
  std::optional<train::Validation> after_step(const train::StepResult& step, const Around& around);

  const profile::ValidationFigures& figures() const { return figures_; }
  /// Seconds of all validations on this rank, those that were stopped included.
  double seconds() const { return seconds_; }

 private:
  void note(const train::Validation& result, std::int64_t step, base::Logger& logger);

  profile::ValidationFigures figures_;
  double seconds_ = 0;
};

}  // namespace shard8::app
