// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/rank_trace.hpp"

// What `shard8 trace` writes. Each form has a source of its own: kineto, chakra, timeline, overlap.

namespace shard8::trace {

/// How times are written. Tools that read floating-point times round begins up and ends down, which makes every span
/// shorter; whole microseconds are read as they are.
enum class Times {
  nanoseconds,  ///< microseconds with three decimals
  whole_microseconds
};

/// One trace of all ranks in the format of PyTorch's Kineto, for Perfetto (ui.perfetto.dev) and chrome://tracing: each
/// rank is a process, its host and its streams are threads.
std::string kineto_of_all(const std::vector<RankTrace>& ranks);

/// The trace of one rank, as HolisticTraceAnalysis reads a folder of them.
std::string kineto_of(const RankTrace& rank, Times times = Times::whole_microseconds);

/// The Chakra execution trace of one rank (mlcommons/chakra, schema/protobuf/et_def.proto): GlobalMetadata, then a Node
/// for each span of computation and each collective that the traced steps issued, each message behind its length.
///
/// Computation depends on the computation before it and on the collectives that it waited for, as a whole or for the
/// tokens of a peer. A collective depends on the computation that was issued before it, of a pipeline before its last
/// push to a peer, and on the collective before it: all ranks issue their collectives in one order.
/// `comm_size` is what a rank gives to a collective, in bytes: of an all-gather its own rows.
std::string chakra_of(const RankTrace& trace);

/// The groups of ranks as ASTRA-sim reads them (--comm-group-configuration): {"1": [0, 1], ...}. The names are the
/// values of the nodes' attribute pg_name.
std::string chakra_groups(const RankTrace& trace);

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

/// Seconds of the traced steps of one rank.
struct Overlap {
  int rank = 0;
  double steps = 0;    ///< all traced steps together
  double compute = 0;  ///< products, attention, kernels, updates
  /// During which at least one collective was in flight: the union of their intervals, within the steps. On devices
  /// that is communication. On hosts it ends when this rank notices the end.
  double in_flight = 0;
  double overlapped = 0;  ///< of `in_flight`, during which the rank also computed
  double exposed = 0;     ///< seconds that the compute stream waited for collectives, as the collectives' log has it
  double covered = 0;     ///< in named phases
};

Overlap overlap_of(const RankTrace& trace);

/// A table of all ranks. On hosts it does not call time in flight an overlap.
std::string overlap_text(const std::vector<RankTrace>& ranks);

}  // namespace shard8::trace
