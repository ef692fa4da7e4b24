// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/rank_trace.hpp"

namespace shard8::trace {

/// Which layer of which step a timeline shows.
struct TimelineChoice {
  int layer = -1;          ///< -1: the one in the middle
  std::int64_t step = -1;  ///< -1: the first that was traced
};

/// What a layer did in one direction, in the first micro-batch of a step.
struct LayerWindow {
  std::int64_t begin = 0, end = 0;  ///< ns
  std::vector<Span> work;           ///< of the compute stream, ascending
  std::vector<Span> collectives;    ///< under way at that time, ascending
};

/// The window of a layer in the phase "forward" or "backward"; empty if there is none.
LayerWindow layer_window(const RankTrace& trace, const std::string& unit, std::int64_t step, const std::string& phase);

/// An SVG picture, 900 wide, for light and dark backgrounds: compute and collectives of one layer in rows of their own,
/// forward above backward. Error(deck) if the trace has no such layer or step.
std::string timeline(const RankTrace& trace, const TimelineChoice& choice);

}  // namespace shard8::trace
