// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "train/time_left.hpp"

#include <algorithm>
#include <limits>

namespace shard8::train {

TimeLimit reached(const TimeLimits& limits, const ClockTimes& now, const LongestTimes& longest) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const double margin = limits.margin_s.value_or(kMarginFactor * (longest.step + longest.checkpoint_write));
  double run = kNever, job = kNever;  // seconds left
  if (limits.run_s) run = *limits.run_s - now.steady;
  if (limits.job_end) {
    const double at_start = *limits.job_end - limits.start.since_1970;
    job = std::min(*limits.job_end - now.since_1970, at_start - (now.steady - limits.start.steady));
  }
  if (std::min(run, job) > margin) return TimeLimit::none;
  return run <= job ? TimeLimit::run : TimeLimit::job_end;
}

}  // namespace shard8::train
