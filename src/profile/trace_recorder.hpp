// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "profile/collective_log.hpp"
#include "profile/phase.hpp"

namespace shard8::profile {

enum class Issue : std::uint8_t;

/// Steps by number, first and last included.
struct StepRange {
  std::int64_t first = 0, last = 0;
};

/// What one part of a step computed, or what it did for an exchange. Texts are static.
struct TraceNote {
  std::string_view name;              ///< a kernel ("rmsnorm_forward"), or a call of an exchange ("wait", "give")
  std::string_view linear;            ///< "qkv", "proj", "fc1", "fc2"; empty: none
  int unit = -1;                      ///< of the model; -1: no single unit
  int peer = -1;                      ///< the rank of the group that an exchange waits for or gives to; -1: none
  std::int64_t m = 0, n = 0, k = 0;   ///< extents of a product; 0: not a product
  std::int64_t groups = 0;            ///< of tokens in a product, each with a weight of its own; 0: one weight
  std::string_view left, right, out;  ///< dtypes of a product
  double flops = 0;
  std::int64_t issued = 0, issue_ended = 0;  ///< ns of the host's clock: when the host began and ended to issue it
};

/// An interval of the compute stream. All intervals of a step together are the step.
struct WorkSpan {
  std::int64_t begin = 0, end = 0;  ///< ns of the host's clock
  std::int64_t step = 0;
  int phase = 0;              ///< Phase
  int part = -1;              ///< Part; -1: none
  int exchange = kExchanges;  ///< Exchange; kExchanges: none
  int note = -1;              ///< index in TraceRecorder::notes(); -1: none
};

/// A call of a collective, as a trace records it.
struct CallSpan {
  Collective op{};
  std::string group;
  int ranks = 1;
  std::string dtype;                ///< several: joined by '+'
  std::uint64_t bytes = 0;          ///< as CollectiveKey counts them
  std::int64_t step = 0;            ///< in which it was issued
  int unit = -1;                    ///< as TraceNote
  int exchange = kExchanges;        ///< as WorkSpan
  std::int64_t issued = 0;          ///< ns of the host's clock
  std::int64_t begin = 0, end = 0;  ///< ns; both 0: its end was not seen
  std::int64_t waited = 0;          ///< ns: the compute stream had waited for it; 0: not seen
  std::int64_t exposed = 0;         ///< ns for which the compute stream only waited for it
};

/// Work that the host issued.
struct IssueSpan {
  Issue issue{};
  std::int64_t step = 0;
  int unit = -1;
  std::int64_t begin = 0, end = 0;  ///< ns of the host's clock
};

struct TracedStep {
  std::int64_t step = 0;
  std::int64_t begin = 0, end = 0;  ///< ns of the host's clock
};

/// Nanoseconds of the host's clock (std::chrono::steady_clock).
std::int64_t trace_now();

/// Collects the spans of chosen steps on this rank. StepTimer and CollectiveLog tell the recorder what happens. The
/// recorder is not synchronized: it belongs to the thread that trains.
class TraceRecorder {
 public:
  /// Traces the steps in `ranges`. The next step that begins has the number `first_step`.
  TraceRecorder(std::vector<StepRange> ranges, std::int64_t first_step)
      : ranges_(std::move(ranges)), next_(first_step) {}

  /// Where the program is: the unit and linear that are computed.
  struct Location {
    int unit = -1;
    std::string_view linear;
  };
  Location location;

  bool wants(std::int64_t step) const;

  // Functions that StepTimer calls.

  /// A step begins. True if it is traced.
  bool begin_step();
  std::int64_t step() const { return next_ - 1; }
  /// A part begins, which the location and `name` describe. Returns the index of its note.
  int add_note(std::string_view name);
  TraceNote& note(int index) { return notes_[static_cast<std::size_t>(index)]; }
  /// The exchange that is under way; kExchanges: none.
  void set_exchange(int exchange) { exchange_ = exchange; }
  void add_work(const WorkSpan& span);
  void add_step(const TracedStep& step) { steps_.push_back(step); }
  void add_issue(Issue issue, std::int64_t begin, std::int64_t end);

  // Functions that the callers of CollectiveLog call.

  /// Whether calls that are issued now are traced: in a traced step and in the step before it.
  bool tracing_calls() const { return tracing_calls_; }
  /// A call is issued. Returns its handle for completed(), or 0 if the call is not traced.
  std::uint64_t issued(const CallSpan& call);
  /// A call is complete: times in ns of the host's clock.
  void completed(std::uint64_t handle, std::int64_t begin, std::int64_t end, std::int64_t waited, std::int64_t exposed);

  const std::vector<TracedStep>& steps() const { return steps_; }
  const std::vector<WorkSpan>& work() const { return work_; }
  /// Calls of traced steps, and of the step before a traced one.
  const std::vector<CallSpan>& calls() const { return calls_; }
  const std::vector<IssueSpan>& issues() const { return issues_; }
  const std::vector<TraceNote>& notes() const { return notes_; }

 private:
  std::vector<StepRange> ranges_;
  std::int64_t next_;
  bool tracing_ = false;  ///< the step under way is traced
  bool tracing_calls_ = false;
  int exchange_ = kExchanges;
  std::vector<TracedStep> steps_;
  std::vector<WorkSpan> work_;
  std::vector<CallSpan> calls_;
  std::vector<IssueSpan> issues_;
  std::vector<TraceNote> notes_;
};

}  // namespace shard8::profile
