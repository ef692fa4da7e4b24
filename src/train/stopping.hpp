// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "comm/communicator.hpp"
#include "deck/config.hpp"
#include "train/time_left.hpp"

namespace shard8::train {

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

/// Decides between steps whether a run stops, alike on every rank. Each rank has its own signals and clocks: where any
/// rank has a reason, all stop.
class Stopping {
 public:
  struct Sources {
    std::function<int()> signal;        ///< the signal that asks this rank to stop, or 0; empty: none ever does
    std::function<ClockTimes()> clock;  ///< of this rank
    std::optional<double> job_end{};    ///< see train::job_end()
  };
  /// `world`, the group of all ranks, must outlive the object.
  Stopping(const comm::Communicator& world, const deck::RunConfig& run, Sources sources);

  /// A step of this run is over; it took so many seconds on this rank.
  void step_over(double seconds);
  /// A checkpoint was written, and the ranks took so many seconds for it.
  void checkpoint_over(double seconds);
  /// Whether the run stops before its next step. Collective: one all-reduce of a value in host memory.
  StopReason agree() const;

 private:
  StopReason own() const;

  const comm::Communicator& world_;
  Sources sources_;
  std::int64_t stop_after_ = 0;  ///< steps of this run, 0 for none
  std::int64_t steps_ = 0;       ///< of this run so far
  TimeLimits limits_;
  LongestTimes longest_;
};

}  // namespace shard8::train
