// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/axes.hpp"
#include "base/plain_file.hpp"
#include "profile/trace_recorder.hpp"

namespace shard8::trace {

/// How the clock of a rank compares with that of rank 0 at one moment.
struct ClockPoint {
  std::int64_t local_ns = 0;       ///< by the rank's clock
  std::int64_t ahead_ns = 0;       ///< rank 0's clock less the rank's
  std::int64_t round_trip_ns = 0;  ///< of the messages: ahead_ns is wrong by at most half of it
};

/// What happened on a stream, or what the host issued.
struct Span {
  enum class Kind : std::uint8_t {
    work,        ///< an interval of the compute stream
    collective,  ///< from when it began until it was complete
    issue        ///< work of the host
  };
  Kind kind = Kind::work;
  std::int64_t begin = 0, end = 0;  ///< ns
  std::int64_t step = 0;            ///< a collective: the step in which it was issued
  std::string unit;                 ///< "layer 3", "embedding", "head"; empty: none
  // Members of work.
  std::string phase, part;           ///< part: empty if none
  std::string exchange;              ///< empty: none. Collectives have it, too
  std::string name;                  ///< a kernel, "fprop", "wait", ...; of an issue: its name
  std::string linear;                ///< "qkv"; empty: none
  int peer = -1;                     ///< rank of the group; -1: none
  std::int64_t m = 0, n = 0, k = 0;  ///< of a product; m = 0: none
  std::int64_t groups = 0;           ///< as profile::TraceNote
  std::string left, right, out;      ///< dtypes of the product
  double flops = 0;
  std::int64_t issued = 0, issue_ended = 0;  ///< ns of the host. `issued` of collectives, too
  // Members of a collective.
  std::string op, group, dtype;
  int ranks = 1;
  std::uint64_t bytes = 0;   ///< as profile::CollectiveKey counts them
  std::int64_t waited = 0;   ///< ns: from then on the compute stream uses the result; 0: not seen
  std::int64_t exposed = 0;  ///< ns that the compute stream only waited

  /// Whether the span only waits for, or takes part in, communication.
  bool is_wait() const;
  /// Whether the span computes: a product, attention, a kernel, an update.
  bool is_compute() const;
  /// What a collective does, in a word: "gather", "reduce", or its operation.
  std::string verb() const;
  /// What to call it: "layer 3 qkv fprop".
  std::string title() const;
};

struct Step {
  std::int64_t number = 0;
  std::int64_t begin = 0, end = 0;  ///< ns
};

/// The trace of one rank. Times in memory are on rank 0's clock, and 0 is where the earliest comparison of clocks was;
/// in the file they are on the rank's own clock.
struct RankTrace {
  std::string run;  ///< a text that is equal on all ranks of a run, and differs between runs
  int rank = 0, ranks = 1;
  std::string host, device;  ///< device: "host", or the name of a GPU
  std::string skeleton{};    ///< what a skeleton run kept of a step, run.skeleton; empty: the run trained
  base::Extents mesh;
  std::vector<std::string> exchanges;  ///< "qkv_fprop direct", ...: how each exchange was hidden
  std::vector<ClockPoint> clock;       ///< at the begin and at the end of the training
  std::vector<Step> steps;
  std::vector<Span> spans;  ///< each kind in the order of its begin

  bool on_device() const { return device != "host"; }
};

/// The spans of a recorder. `units` are the names of units by number.
void take_spans(RankTrace& trace, const profile::TraceRecorder& recorder, const std::vector<std::string>& units);

using base::rank_file_name;

/// The text of a rank's file.
std::string to_text(const RankTrace& trace);
/// Reads such a text; `path` is for errors. Error(environment) if the text is cut off or no trace.
RankTrace from_text(const std::string& text, const std::string& path);

/// The moment `local_ns` of a rank's clock on rank 0's clock, in ns. Between the two comparisons in `clock` the
/// difference of the clocks changes linearly.
std::int64_t on_root_clock(const std::vector<ClockPoint>& clock, std::int64_t local_ns);

/// The traces of all ranks of the run in `folder`, in rank order, on rank 0's clock. `name` is output.trace; empty: the
/// one that is there. Error(environment) if there is none, there are several, a rank's file is missing, cut off or of
/// another run.
struct RunTrace {
  std::string name;
  std::vector<RankTrace> ranks;
};
RunTrace read_run(const std::string& folder, std::string name);

/// One group of ranks of a mesh.
struct RankGroup {
  std::string kind;        ///< the name of a set of axes: base::named_sets()
  int number = 0;          ///< unique among all groups of the mesh
  std::vector<int> ranks;  ///< ascending
  /// "tensor 1": its kind, and which of the groups of that kind.
  std::string name;
};

/// All groups of the named sets of axes that have several ranks.
std::vector<RankGroup> groups_of(const base::Extents& mesh);

/// The group of this kind with this rank, or null.
const RankGroup* group_with(const std::vector<RankGroup>& groups, const std::string& kind, int rank);

// What `shard8 trace` writes. Each form has a source of its own: kineto, chakra, timeline, overlap.

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
  /// Seconds during which at least one collective was in flight: the union of the intervals of collectives, within the
  /// steps. On devices an interval is communication. On hosts it ends when this rank notices the end.
  double in_flight = 0;
  double overlapped = 0;  ///< of `in_flight`, during which the rank also computed
  double exposed = 0;     ///< seconds that the compute stream waited for collectives, as the collectives' log has it
  double covered = 0;     ///< in named phases
};

Overlap overlap_of(const RankTrace& trace);

/// A table of all ranks. On hosts the table does not call time in flight an overlap.
std::string overlap_text(const std::vector<RankTrace>& ranks);

}  // namespace shard8::trace
