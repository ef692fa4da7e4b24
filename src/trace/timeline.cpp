// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "trace/outputs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "base/error.hpp"
#include "trace/timeline_svg.hpp"

namespace shard8::trace {
namespace {

const Step& step_of(const RankTrace& trace, std::int64_t number) {
  SHARD8_REQUIRE(!trace.steps.empty(), "the trace of rank {} has no steps", trace.rank);
  if (number < 0) return trace.steps.front();
  std::string known;
  for (const Step& step : trace.steps) {
    if (step.number == number) return step;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", step.number);
  }
  base::fail(base::ExitCode::deck, "--step {}: the trace has steps {}", number, known);
}

int layers_of(const RankTrace& trace) {
  std::set<std::string> units;
  for (const Span& span : trace.spans)
    if (span.unit.starts_with("layer ")) units.insert(span.unit);
  return static_cast<int>(units.size());
}

std::string layer_of(const RankTrace& trace, int layer) {
  const int layers = layers_of(trace);
  if (layer >= layers || layers == 0)
    base::fail(base::ExitCode::deck, "--layer {}: the trace has layers 0 to {}", layer, layers - 1);
  return fmt::format("layer {}", layer < 0 ? layers / 2 : layer);
}

Bar bar_of(const Span& span) {
  Bar bar{span.begin, span.end, "", span.title(), "elementwise"};
  if (span.kind == Span::Kind::collective) {
    bar.kind = span.group == "tensor" ? "exchange" : "weights";
    bar.label = !span.exchange.empty() ? span.exchange : span.unit + ' ' + span.verb();
    bar.title = fmt::format("{}, {} bytes in group {}", span.title(), span.bytes, span.group);
  } else if (span.is_wait()) {
    bar.kind = "wait";
    bar.label = "wait";
  } else {
    bar.label = span.linear.empty() ? span.name : span.linear + ' ' + span.name;
    if (span.part == "gemm") bar.kind = "gemm";
    if (span.part == "attention") bar.kind = "attention";
    if (span.part == "attention") bar.label = "attention";
  }
  return bar;
}

/// Bars that overlap in time go to rows of their own.
std::vector<Row> rows_of(const std::string& name, const std::vector<Bar>& bars) {
  std::vector<Row> rows;
  for (const Bar& bar : bars) {
    auto row = std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return r.bars.back().end <= bar.begin; });
    if (row == rows.end()) row = rows.insert(rows.end(), {rows.empty() ? name : "", {}});
    row->bars.push_back(bar);
  }
  return rows;
}

Panel panel_of(const RankTrace& trace, const std::string& unit, std::int64_t step, const std::string& phase) {
  const LayerWindow window = layer_window(trace, unit, step, phase);
  Panel panel{phase, window.begin, window.end, {}};
  Row compute{"compute", {}};
  for (const Span& span : window.work)
    if (span.is_wait() || span.is_compute()) compute.bars.push_back(bar_of(span));
  panel.rows.push_back(compute);
  std::vector<Bar> exchanges, weights;
  for (const Span& span : window.collectives) {
    Bar bar = bar_of(span);
    bar.begin = std::max(bar.begin, window.begin);
    bar.end = std::min(bar.end, window.end);
    (span.group == "tensor" ? exchanges : weights).push_back(bar);
  }
  for (const Row& row : rows_of("exchanges", exchanges)) panel.rows.push_back(row);
  for (const Row& row : rows_of("weights, gradients", weights)) panel.rows.push_back(row);
  return panel;
}

}  // namespace

LayerWindow layer_window(const RankTrace& trace, const std::string& unit, std::int64_t step, const std::string& phase) {
  LayerWindow window;
  for (const Span& span : trace.spans) {
    if (span.kind != Span::Kind::work || span.step != step) continue;
    // Casts around gathers belong to the unit that is gathered, at any time before it is used.
    const bool cast = span.name == "cast_before_gather" || span.name == "cast_after_gather";
    const bool mine = !cast && span.unit == unit && (span.phase == phase || span.phase == "gather_wait");
    if (mine && (!window.work.empty() || span.phase == phase)) {
      window.work.push_back(span);
      continue;
    }
    // Another unit's part inside: a gather that was begun ahead. The other direction: the end of the micro-batch.
    if (!window.work.empty() && (span.phase == "forward" || span.phase == "backward") && span.phase != phase) break;
    if (!window.work.empty() && span.phase == phase && span.unit != unit && span.is_compute() && span.part == "gemm")
      break;
  }
  while (!window.work.empty() && window.work.back().phase == "gather_wait") window.work.pop_back();
  if (window.work.empty()) return window;
  window.begin = window.work.front().begin;
  window.end = window.work.back().end;
  for (const Span& span : trace.spans)
    if (span.kind == Span::Kind::collective && span.begin < window.end && span.end > window.begin)
      window.collectives.push_back(span);
  std::stable_sort(window.collectives.begin(), window.collectives.end(),
                   [](const Span& a, const Span& b) { return a.begin < b.begin; });
  return window;
}

std::string timeline(const RankTrace& trace, const TimelineChoice& choice) {
  const Step& step = step_of(trace, choice.step);
  const std::string unit = layer_of(trace, choice.layer);
  Picture picture;
  picture.title = fmt::format("{} of step {} on rank {} of {}, mesh {}, {}", unit, step.number, trace.rank, trace.ranks,
                              text_of(trace.mesh, " × "), trace.on_device() ? trace.device : "host");
  for (const char* phase : {"forward", "backward"}) picture.panels.push_back(panel_of(trace, unit, step.number, phase));
  return svg_of(picture);
}

}  // namespace shard8::trace
