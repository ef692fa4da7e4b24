// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "profile/step_times.hpp"

namespace shard8::profile {

/// A value over ranks, as a reduction forms it: one rank's value, joined with those of the others in any order. The
/// order changes only the last bits of `sum`.
struct OverRanks {
  double min = 0, sum = 0, max = 0;
  int max_rank = 0;  ///< the lowest rank that has the maximum

  static OverRanks of(double value, int rank) { return {value, value, value, rank}; }
  /// Takes in the values of other ranks. NaN counts as the largest value.
  void join(const OverRanks& others) {
    const bool is_nan = std::isnan(max), other_is_nan = std::isnan(others.max);
    const bool equal = is_nan || other_is_nan ? is_nan == other_is_nan : max == others.max;
    const bool larger = is_nan || other_is_nan ? other_is_nan : others.max > max;
    if (equal ? others.max_rank < max_rank : larger) {
      max = others.max;
      max_rank = others.max_rank;
    }
    min = std::fmin(min, others.min);
    sum += others.sum;
  }
};

/// The communication of a report. Every function is collective: every rank calls it with the same number of values.
/// Lists by rank exist on rank 0 alone; all else is reduced, in the logarithm of the ranks.
struct Gather {
  int ranks = 1;
  /// Each value over the ranks, on every rank.
  std::function<std::vector<OverRanks>(std::span<const double>)> over_ranks;
  /// Returns the values of every rank, in rank order, on rank 0, and nothing on other ranks.
  std::function<std::vector<double>(std::span<const double>)> doubles;
  /// Returns the text of every rank, in rank order, on rank 0, and nothing on other ranks.
  std::function<std::vector<std::string>(std::string_view)> texts;
  /// Replaces `text` by the text of `rank`.
  std::function<void(std::string& text, int rank)> broadcast;
};

/// The most bytes of gathered values that rank 0 holds at once; if one value of every rank takes more, it holds one
/// value of every rank. Chosen: few calls in small jobs, little memory in large ones.
inline constexpr std::size_t kGatheredBytes = std::size_t{1} << 20;

/// Gathers the values `mine` of all ranks block by block. On rank 0 calls use(i, by_rank) for each i, where by_rank[r]
/// is value i of rank r. Collective: every rank passes the same number of values.
void for_each_gathered(std::span<const double> mine, const Gather& gather,
                       const std::function<void(std::size_t i, std::span<const double> by_rank)>& use);

/// One figure over the ranks.
struct Spread {
  double min = 0, mean = 0, max = 0;
  int worst_rank = 0;  ///< the lowest rank that has the largest value
};
Spread spread_of(const OverRanks& value, int ranks);
/// by_rank (ranks) must not be empty.
Spread spread_of(std::span<const double> by_rank);

/// A row of the report's table of phases.
struct TimedRow {
  std::string phase;  ///< "step" for the whole step
  std::string part;   ///< empty for a whole phase
  double (*seconds)(const StepTimes& times);
};
inline constexpr int kTimedRows = kPhases + 2 * kParts + 1;
/// All rows in the order of the report: the phases, the parts of forward and backward after their phase, then the
/// whole step.
const std::array<TimedRow, kTimedRows>& timed_rows();
/// The part's name; "gemm (emulated)" for gemm if matrix products are emulated.
std::string part_label(const TimedRow& row, bool emulated);

/// Seconds over the ranks, in the order of timed_rows().
using Spreads = std::array<Spread, kTimedRows>;

struct StepSpreads {
  /// The spreads of each row. A row is a step, or the mean of `row_steps` consecutive ones (StepRecord). The last row
  /// may have fewer.
  std::vector<Spreads> rows;
  std::int64_t row_steps = 1;
  std::int64_t steps = 0;  ///< in all rows
  /// What drawn steps took on their slowest ranks: every step, or one for each row (StepRecord) that is full.
  std::vector<double> drawn_s{};
  Spreads mean;  ///< of each rank's mean over the steps
  /// On rank 0, of each row of timed_rows() each rank's mean over the steps; empty if there are no steps.
  std::vector<std::vector<double>> by_rank{};
  /// On rank 0, (rows, kTimedRows, ranks), seconds of a step on each rank; empty unless spread_over_ranks() was called
  /// with `every`. A row is the mean of `every_steps` steps: more than row_steps where there would be more than
  /// kMostEvery values.
  std::vector<float> every{};
  std::int64_t every_steps = 1;
  double longest_s = 0;  ///< seconds of all steps on the slowest rank
};

/// The most values of StepSpreads::every, unless one row has more: 256 MiB. Chosen: 2000 steps of 1860 ranks.
inline constexpr std::size_t kMostEvery = std::size_t{1} << 26;

/// `mine` are the steps of this rank. `every` fills StepSpreads::every. Collective: every rank passes the same number
/// of steps and the same `every`.
StepSpreads spread_over_ranks(const StepRecord& mine, const Gather& gather, bool every = false,
                              std::size_t most_every = kMostEvery);

/// The p-th percentile, 0 ≤ p ≤ 100, interpolated linearly between the two nearest values; 0 if there are none.
double percentile(std::vector<double> values, double p);

}  // namespace shard8::profile
