// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "deck/config.hpp"
#include "train/trainer.hpp"

namespace shard8::train {

/// Two clocks of this rank, in seconds.
struct ClockTimes {
  double steady = 0;      ///< since the process began; never goes back
  double since_1970 = 0;  ///< the system's, which may be set forward and back
};

/// When a run must have ended.
struct TimeLimits {
  std::optional<double> run_s{};     ///< seconds from the begin of the process
  std::optional<double> job_end{};   ///< when the batch system ends the job, in seconds since 1970
  std::optional<double> margin_s{};  ///< how long before that the run stops; none: kMarginFactor times LongestTimes
  ClockTimes start{};                ///< when these limits were made
};

/// The longest times so far, in seconds.
struct LongestTimes {
  double step = 0, checkpoint_write = 0;
};

/// Chosen: half a step and half a write more than the longest ones took.
inline constexpr double kMarginFactor = 1.5;

enum class TimeLimit : std::uint8_t { none, run, job_end };

/// The limit that is less than the margin away, or none; the nearer one of two.
///
/// The end of the job is read from both clocks, and the earlier one counts: where the system's clock was set back, the
/// steady clock has not forgotten how much time was left at the start.
TimeLimit reached(const TimeLimits& limits, const ClockTimes& now, const LongestTimes& longest);

/// Why a run stops before its last step.
struct StopReason {
  /// Where ranks have different reasons, the last one here counts.
  enum class Kind : std::uint8_t { none, stop_after, time_limit, job_end, signal };
  Kind kind = Kind::none;
  int signal = 0;  ///< of Kind::signal, else 0

  explicit operator bool() const { return kind != Kind::none; }
  bool operator==(const StopReason&) const = default;
};

/// "SIGTERM", or the name of the key or variable that set the limit. Empty for no reason.
std::string name_of(const StopReason& reason);

/// When the batch system ends this job, in seconds since 1970: `text`, the value of SLURM_JOB_END_TIME. Returns none
/// without a text, for an empty text, and for a time that is not after `now`: a job whose limit was raised keeps the
/// old value. Error(environment) when the value is no number.
std::optional<double> job_end(const char* text, double now);

/// The stop request of a rank that has a reason to stop: a number below Trainer::kStopRequests, 0 for none. The largest
/// request of several ranks is the reason that counts. A signal must be one of base::StopSignals.
std::uint64_t code_of(const StopReason& reason);
StopReason reason_of(std::uint64_t code);

/// Whether this rank requests that the run stops. Ranks have signals and clocks of their own; the trainer makes them
/// agree (Trainer::stop_requests_from).
class Stopping {
 public:
  struct Sources {
    std::function<int()> signal;        ///< the signal that requests a stop of this rank, or 0; empty: none ever does
    std::function<ClockTimes()> clock;  ///< of this rank
    std::optional<double> job_end{};    ///< see train::job_end()
  };
  Stopping(const deck::RunConfig& run, Sources sources);

  /// A step of this run begins.
  void begin_step();
  /// The step ends. Returns why the run is to stop behind it.
  StopReason end_step();
  /// Why the run is to stop within a validation: a signal, or a limit of time.
  StopReason within_validation() const;
  /// Writing a checkpoint held ranks up for so many seconds.
  void checkpoint_written(double seconds);

 private:
  StopReason urgent(const ClockTimes& now) const;
  Sources sources_;
  std::int64_t stop_after_ = 0;  ///< steps of this run, 0 for none
  std::int64_t steps_ = 0;       ///< of this run that ended
  double step_began_ = 0;        ///< on the steady clock
  TimeLimits limits_;
  LongestTimes longest_;
};

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
