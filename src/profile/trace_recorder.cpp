// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/trace_recorder.hpp"

#include <algorithm>
#include <chrono>

namespace shard8::profile {

std::int64_t trace_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

bool TraceRecorder::wants(std::int64_t step) const {
  return std::any_of(ranges_.begin(), ranges_.end(),
                     [&](const StepRange& range) { return range.first <= step && step <= range.last; });
}

bool TraceRecorder::begin_step() {
  const std::int64_t step = next_++;
  tracing_ = wants(step);
  tracing_calls_ = tracing_ || wants(step + 1);
  location = {};
  exchange_ = kExchanges;
  return tracing_;
}

int TraceRecorder::add_note(std::string_view name) {
  TraceNote& note = notes_.emplace_back();
  note.name = name;
  note.unit = location.unit;
  note.linear = location.linear;
  note.issued = trace_now();
  return static_cast<int>(notes_.size()) - 1;
}

void TraceRecorder::add_work(const WorkSpan& span) {
  if (!work_.empty()) {
    WorkSpan& last = work_.back();
    const bool same = last.step == span.step && last.phase == span.phase && last.part == span.part &&
                      last.exchange == span.exchange && last.note == span.note && last.end == span.begin;
    if (same) {
      last.end = span.end;
      return;
    }
  }
  if (span.end > span.begin) work_.push_back(span);
}

void TraceRecorder::add_issue(Issue issue, std::int64_t begin, std::int64_t end) {
  if (tracing_) issues_.push_back({issue, step(), location.unit, begin, end});
}

std::uint64_t TraceRecorder::issued(const CallSpan& call) {
  if (!tracing_calls_) return 0;
  CallSpan& added = calls_.emplace_back(call);
  added.step = step();
  added.unit = location.unit;
  added.exchange = exchange_;
  added.issued = trace_now();
  return calls_.size();
}

void TraceRecorder::completed(std::uint64_t handle, std::int64_t begin, std::int64_t end, std::int64_t waited,
                              std::int64_t exposed) {
  if (handle == 0) return;
  CallSpan& call = calls_.at(static_cast<std::size_t>(handle - 1));
  call.begin = begin;
  call.end = end;
  call.waited = waited;
  call.exposed = exposed;
}

}  // namespace shard8::profile
