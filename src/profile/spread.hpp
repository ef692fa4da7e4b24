// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "profile/gather.hpp"
#include "profile/step_timer.hpp"

namespace shard8::profile {

/// Of one figure: least, mean and largest over the ranks, and the lowest rank that has the largest.
struct Spread {
  double min = 0, mean = 0, max = 0;
  int worst_rank = 0;
};
Spread spread_of(std::span<const double> of_ranks);

/// What is timed in a step, in the order of the report: the phases, with the parts of forward and
/// backward after them, then the whole step.
struct Timed {
  std::string phase;  ///< "step" for the whole
  std::string part;   ///< empty for a phase
  double (*seconds)(const StepTimes& times);
};
inline constexpr int kTimed = kPhases + 2 * kParts + 1;
const std::array<Timed, kTimed>& timed();
/// The part's name; if matrix products are emulated, that of `gemm` says so: "gemm (emulated)".
std::string part_label(const Timed& what, bool emulated);

/// Seconds over the ranks, in the order of timed().
using Spreads = std::array<Spread, kTimed>;

/// The spreads of each step, and of the ranks' means over the steps; collective.
struct StepSpreads {
  std::vector<Spreads> steps;
  Spreads mean;
  double longest_s = 0;  ///< largest over ranks of a rank's sum over the steps: the time they took
};
StepSpreads spread_over_ranks(std::span<const StepTimes> mine, const Gather& gather);

/// The p-th percentile, 0 ≤ p ≤ 100, linear between the nearest two; 0 of nothing.
double percentile(std::vector<double> values, double p);

}  // namespace shard8::profile
