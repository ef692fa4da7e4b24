// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "trace/rank_trace.hpp"

namespace shard8::trace {

/// Seconds of the traced steps of one rank.
struct Overlap {
  int rank = 0;
  double steps = 0;    ///< all traced steps together
  double compute = 0;  ///< products, attention, kernels, updates
  /// During which at least one collective was in flight: the union of their intervals, within the steps. On devices
  /// that is communication. On hosts it ends when this rank notices the end.
  double in_flight = 0;
  double overlapped = 0;  ///< of `in_flight`, during which the rank also computed
  double exposed = 0;     ///< that the compute stream waited for collectives, as the collectives' log has it
  double covered = 0;     ///< in named phases
};

Overlap overlap_of(const RankTrace& trace);

/// A table of all ranks. On hosts it does not call time in flight an overlap.
std::string overlap_text(const std::vector<RankTrace>& ranks);

}  // namespace shard8::trace
