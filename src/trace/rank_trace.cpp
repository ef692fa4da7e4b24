// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "trace/rank_trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "profile/step_timer.hpp"

namespace shard8::trace {
namespace {

using profile::Phase;

std::string unit_name(const std::vector<std::string>& units, int unit) {
  const bool known = unit >= 0 && static_cast<std::size_t>(unit) < units.size();
  return known ? units[static_cast<std::size_t>(unit)] : std::string();
}

std::string exchange_name(int exchange) {
  return exchange < profile::kExchanges ? std::string(name_of(static_cast<profile::Exchange>(exchange))) : "";
}

/// A span of this kind with the times and the step of what was recorded.
template <class Recorded>
Span timed(Span::Kind kind, const Recorded& recorded) {
  Span span;
  span.kind = kind;
  span.begin = recorded.begin;
  span.end = recorded.end;
  span.step = recorded.step;
  return span;
}

Span span_of(const profile::WorkSpan& work, const profile::TraceRecorder& recorder,
             const std::vector<std::string>& units) {
  Span span = timed(Span::Kind::work, work);
  span.phase = name_of(static_cast<Phase>(work.phase));
  if (work.part >= 0) span.part = name_of(static_cast<profile::Part>(work.part));
  span.exchange = exchange_name(work.exchange);
  if (work.note < 0) return span;
  const profile::TraceNote& note = recorder.notes()[static_cast<std::size_t>(work.note)];
  span.unit = unit_name(units, note.unit);
  span.name = note.name;
  span.linear = note.linear;
  span.peer = note.peer;
  span.m = note.m;
  span.groups = note.groups;
  span.n = note.n;
  span.k = note.k;
  span.left = note.left;
  span.right = note.right;
  span.out = note.out;
  span.flops = note.flops;
  span.issued = note.issued;
  span.issue_ended = note.issue_ended;
  return span;
}

Span span_of(const profile::CallSpan& call, const std::vector<std::string>& units) {
  Span span = timed(Span::Kind::collective, call);
  span.unit = unit_name(units, call.unit);
  span.exchange = exchange_name(call.exchange);
  span.op = name_of(call.op);
  span.group = call.group;
  span.ranks = call.ranks;
  span.dtype = call.dtype;
  span.bytes = call.bytes;
  span.issued = call.issued;
  span.waited = call.waited;
  span.exposed = call.exposed;
  return span;
}

Span span_of(const profile::IssueSpan& issue, const std::vector<std::string>& units) {
  Span span = timed(Span::Kind::issue, issue);
  span.unit = unit_name(units, issue.unit);
  span.name = name_of(issue.issue);
  return span;
}

}  // namespace

bool Span::is_wait() const {
  return kind == Kind::work && (part == "tensor_comm" || phase == "gather_wait" || phase == "reduce_wait");
}

bool Span::is_compute() const {
  if (kind != Kind::work || is_wait()) return false;
  return !part.empty() || phase == "optimizer" || phase == "quantize";
}

std::string Span::verb() const {
  if (op == "all_gather") return "gather";
  return op == "reduce_scatter" || op == "all_reduce" ? "reduce" : op;
}

std::string Span::title() const {
  std::string text;
  const auto add = [&text](const std::string& word) {
    if (word.empty()) return;
    if (!text.empty()) text += ' ';
    text += word;
  };
  add(unit);
  if (kind == Kind::collective) {
    if (exchange.empty()) add(group);
    add(exchange);
    add(op);
    return text;
  }
  if (!exchange.empty()) {
    add(exchange);
  } else {
    add(linear);
  }
  if (kind == Kind::work && (name.empty() || is_wait())) add(part.empty() || part == "tensor_comm" ? phase : part);
  add(name);
  if (peer >= 0) text += fmt::format(" rank {}", peer);
  return text;
}

void take_spans(RankTrace& trace, const profile::TraceRecorder& recorder, const std::vector<std::string>& units) {
  for (const profile::TracedStep& step : recorder.steps()) trace.steps.push_back({step.step, step.begin, step.end});
  for (const auto& work : recorder.work()) trace.spans.push_back(span_of(work, recorder, units));
  for (const auto& call : recorder.calls()) {
    // Of the calls of a step before a traced one, only those that a traced step saw end are taken.
    const bool reaches = std::any_of(trace.steps.begin(), trace.steps.end(), [&](const Step& step) {
      return step.number == call.step || (step.number == call.step + 1 && call.waited > step.begin);
    });
    if (call.end > 0 && reaches) trace.spans.push_back(span_of(call, units));
  }
  for (const auto& issue : recorder.issues()) trace.spans.push_back(span_of(issue, units));
}

std::int64_t on_root_clock(const std::vector<ClockPoint>& clock, std::int64_t local_ns) {
  if (clock.empty()) return local_ns;
  const ClockPoint& first = clock.front();
  const ClockPoint& last = clock.back();
  if (last.local_ns <= first.local_ns) return local_ns + first.ahead_ns;
  const double slope =
      static_cast<double>(last.ahead_ns - first.ahead_ns) / static_cast<double>(last.local_ns - first.local_ns);
  return local_ns + first.ahead_ns + static_cast<std::int64_t>(slope * static_cast<double>(local_ns - first.local_ns));
}

std::vector<RankGroup> groups_of(const base::Extents& mesh) {
  std::vector<RankGroup> groups;
  for (const base::AxisSet axes : base::named_sets()) {
    if (axes.in_expert_numbering() && mesh.expert == 1) continue;
    const std::string kind(name_of(axes));
    int ordinal = 0;
    for (std::vector<int>& ranks : base::groups_of(mesh, axes)) {
      const std::string name = fmt::format("{} {}", kind, ordinal++);
      if (ranks.size() > 1) groups.push_back({kind, static_cast<int>(groups.size()), std::move(ranks), name});
    }
  }
  return groups;
}

const RankGroup* group_with(const std::vector<RankGroup>& groups, const std::string& kind, int rank) {
  for (const RankGroup& group : groups)
    if (group.kind == kind && std::find(group.ranks.begin(), group.ranks.end(), rank) != group.ranks.end())
      return &group;
  return nullptr;
}

namespace {

using Interval = std::pair<std::int64_t, std::int64_t>;

/// Intervals that do not touch each other, ascending.
std::vector<Interval> merged(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end());
  std::vector<Interval> all;
  for (const auto& [begin, end] : intervals) {
    if (end <= begin) continue;
    if (!all.empty() && begin <= all.back().second)
      all.back().second = std::max(all.back().second, end);
    else
      all.emplace_back(begin, end);
  }
  return all;
}

std::vector<Interval> common(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  std::vector<Interval> all;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const std::int64_t begin = std::max(a[i].first, b[j].first), end = std::min(a[i].second, b[j].second);
    if (begin < end) all.emplace_back(begin, end);
    a[i].second < b[j].second ? ++i : ++j;
  }
  return all;
}

double seconds(const std::vector<Interval>& intervals) {
  std::int64_t ns = 0;
  for (const auto& [begin, end] : intervals) ns += end - begin;
  return 1e-9 * static_cast<double>(ns);
}

}  // namespace

Overlap overlap_of(const RankTrace& trace) {
  std::vector<Interval> steps, compute, calls;
  Overlap overlap;
  overlap.rank = trace.rank;
  for (const Step& step : trace.steps) steps.emplace_back(step.begin, step.end);
  steps = merged(steps);
  for (const Span& span : trace.spans) {
    if (span.is_compute()) compute.emplace_back(span.begin, span.end);
    if (span.kind == Span::Kind::work && span.phase != "other")
      overlap.covered += 1e-9 * static_cast<double>(span.end - span.begin);
    if (span.kind != Span::Kind::collective) continue;
    calls.emplace_back(span.begin, span.end);
    const bool waited_inside = std::any_of(steps.begin(), steps.end(), [&](const Interval& step) {
      return span.waited > step.first && span.waited <= step.second;
    });
    if (waited_inside) overlap.exposed += 1e-9 * static_cast<double>(span.exposed);
  }
  calls = common(merged(calls), steps);
  overlap.steps = seconds(steps);
  overlap.compute = seconds(merged(compute));
  overlap.in_flight = seconds(calls);
  overlap.overlapped = seconds(common(calls, merged(compute)));
  return overlap;
}

std::string overlap_text(const std::vector<RankTrace>& ranks) {
  const bool devices = !ranks.empty() && ranks.front().on_device();
  std::string text = fmt::format("{:>4}  {:>10}  {:>10}  {:>12}  {:>14}  {:>10}  {:>11}\n", "rank", "steps ms",
                                 "compute ms", "in flight ms", devices ? "overlapped ms" : "of it compute",
                                 "exposed ms", devices ? "overlap %" : "compute %");
  for (const RankTrace& rank : ranks) {
    const Overlap o = overlap_of(rank);
    text += fmt::format("{:>4}  {:>10.3f}  {:>10.3f}  {:>12.3f}  {:>14.3f}  {:>10.3f}  {:>11.2f}\n", o.rank,
                        1e3 * o.steps, 1e3 * o.compute, 1e3 * o.in_flight, 1e3 * o.overlapped, 1e3 * o.exposed,
                        o.in_flight > 0 ? 100 * o.overlapped / o.in_flight : 0.0);
  }
  return text;
}

}  // namespace shard8::trace
