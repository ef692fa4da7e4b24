// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "trace/outputs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace shard8::trace {
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
