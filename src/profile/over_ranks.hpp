// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>

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

}  // namespace shard8::profile
