// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

namespace shard8::train {

/// Two clocks of this rank, in seconds.
struct ClockTimes {
  double steady = 0;      ///< since the process began; never goes back
  double since_1970 = 0;  ///< the system's, which may be set forward and back
};

/// Until when a run may take.
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

}  // namespace shard8::train
