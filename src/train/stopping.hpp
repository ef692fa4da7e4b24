// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "deck/config.hpp"

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

/// When the batch system ends this job, in seconds since 1970: `text`, the value of SLURM_JOB_END_TIME. None without
/// one, for an empty one, and for one that is not after `now`: a job whose limit was raised keeps the old value.
/// Error(environment) when the value is no number.
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

}  // namespace shard8::train
