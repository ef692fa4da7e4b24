// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "trace/rank_trace.hpp"

namespace shard8::trace {

/// A rectangle from begin to end, in ns.
struct Bar {
  std::int64_t begin = 0, end = 0;
  std::string label;  ///< written where it has room
  std::string title;  ///< shown where the pointer rests
  std::string kind;   ///< "gemm", "attention", "elementwise", "wait", "exchange" or "weights"
};

struct Row {
  std::string name;
  std::vector<Bar> bars;  ///< ascending, one after the other
};

/// Rows over one axis of time.
struct Panel {
  std::string name;
  std::int64_t begin = 0, end = 0;  ///< ns
  std::vector<Row> rows;
};

struct Picture {
  std::string title;
  std::vector<Panel> panels;
};

/// The picture as SVG, 900 wide, for light and dark backgrounds.
std::string svg_of(const Picture& picture);

namespace {

// Places and sizes in the picture, in pixels.
constexpr double kWidth = 900, kLeft = 118, kRight = 884;
constexpr double kRowHeight = 24, kRowGap = 6, kTitle = 30, kPanelName = 26, kAxis = 34, kLegend = 30;
constexpr double kLetter = 5.9;  // the mean width of a letter of 10.5 pixels

constexpr std::pair<const char*, const char*> kLegendKinds[] = {{"gemm", "matrix product"},
                                                                {"attention", "attention"},
                                                                {"elementwise", "other kernel"},
                                                                {"wait", "wait, push"},
                                                                {"exchange", "exchange of tensor ranks"},
                                                                {"weights", "weights, gradients"}};

constexpr const char* kStyle = R"(<style>
text { font: 10.5px ui-sans-serif, system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #24292f; }
.title { font-size: 13px; font-weight: 600; }
.panel { font-size: 12px; font-weight: 600; }
.row, .tick { fill: #57606a; }
.in { fill: #ffffff; }
.inwait { fill: #57606a; }
.line { stroke: #8c959f; stroke-opacity: .35; }
.gemm { fill: #2f6db5; } .attention { fill: #7a4fb3; } .elementwise { fill: #4f8f6b; }
.exchange { fill: #c2571a; } .weights { fill: #8a7a2b; }
.wait { fill: #8c959f; fill-opacity: .28; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .row, .tick, .inwait { fill: #9ea7b3; }
  .in { fill: #ffffff; }
  .gemm { fill: #3f7fcb; } .attention { fill: #8f63cc; } .elementwise { fill: #4c9a70; }
  .exchange { fill: #cf6524; } .weights { fill: #95852f; }
}
</style>
)";

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else
      out += c;
  }
  return out;
}

/// 1, 2 or 5 times a power of ten: about eight of them are `whole`.
double tick_of(double whole) {
  const double power = std::pow(10.0, std::floor(std::log10(whole / 8)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= whole / 8) return factor * power;
  return 10 * power;
}

class Drawing {
 public:
  std::string finish(double height) const {
    return fmt::format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1:.0f}\" viewBox=\"0 0 {0} {1:.0f}\" "
               "role=\"img\">\n",
               kWidth, height) +
           kStyle + body_ + "</svg>\n";
  }

  void text(double x, double y, std::string_view style, std::string_view anchor, std::string_view what) {
    body_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"{}\" text-anchor=\"{}\">{}</text>\n", x, y, style,
                         anchor, escaped(what));
  }
  void box(double x, double y, double width, double height, std::string_view kind, std::string_view title) {
    body_ += fmt::format(
        "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" rx=\"1.5\" class=\"{}\"><title>{}</title>"
        "</rect>\n",
        x, y, width, height, kind, escaped(title));
  }
  void line(double x0, double y0, double x1, double y1) {
    body_ +=
        fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" class=\"line\"/>\n", x0, y0, x1, y1);
  }

 private:
  std::string body_;
};

class PanelDrawing {
 public:
  PanelDrawing(Drawing& drawing, const Panel& panel, double top) : drawing_(drawing), panel_(panel), top_(top) {}

  /// Returns where the panel ends.
  double draw() {
    drawing_.text(8, top_ + 16, "panel", "start", panel_.name);
    const double first = top_ + kPanelName;
    const double last = first + static_cast<double>(panel_.rows.size()) * (kRowHeight + kRowGap);
    axis(first - 4, last);
    double y = first;
    for (const Row& row : panel_.rows) {
      drawing_.text(kLeft - 10, y + 16, "row", "end", row.name);
      for (std::size_t i = 0; i < row.bars.size(); ++i) bar(row, i, y);
      y += kRowHeight + kRowGap;
    }
    return last + kAxis;
  }

 private:
  double x_of(std::int64_t time) const {
    const double share = static_cast<double>(time - panel_.begin) / static_cast<double>(panel_.end - panel_.begin);
    return kLeft + share * (kRight - kLeft);
  }

  void bar(const Row& row, std::size_t i, double y) {
    const Bar& bar = row.bars[i];
    const double x = x_of(bar.begin), width = std::max(0.6, x_of(bar.end) - x - 0.5);
    drawing_.box(x, y, width, kRowHeight, bar.kind,
                 fmt::format("{}: {:.3f} ms", bar.title, 1e-6 * static_cast<double>(bar.end - bar.begin)));
    const double room = kLetter * static_cast<double>(bar.label.size());
    if (width > room + 4) {
      drawing_.text(x + width / 2, y + 16, bar.kind == "wait" ? "inwait" : "in", "middle", bar.label);
      return;
    }
    // Beside a bar that is too short, if nothing is drawn there.
    const double next = i + 1 < row.bars.size() ? x_of(row.bars[i + 1].begin) : kRight;
    const bool exchange = bar.kind == "exchange" || bar.kind == "weights";
    if (exchange && next - x - width > room + 8) drawing_.text(x + width + 3, y + 16, "row", "start", bar.label);
  }

  void axis(double top, double bottom) {
    const double whole = 1e-6 * static_cast<double>(panel_.end - panel_.begin);
    const double tick = tick_of(whole);
    const int digits = std::max(0, static_cast<int>(std::ceil(-std::log10(tick))));
    for (int i = 0; i * tick <= whole; ++i) {
      const double x = kLeft + i * tick / whole * (kRight - kLeft);
      drawing_.line(x, top, x, bottom);
      drawing_.text(x, bottom + 14, "tick", "middle", fmt::format("{:.{}f}{}", i * tick, digits, i == 0 ? " ms" : ""));
    }
  }

  Drawing& drawing_;
  const Panel& panel_;
  double top_;
};

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

std::string svg_of(const Picture& picture) {
  Drawing drawing;
  drawing.text(8, 20, "title", "start", picture.title);
  double y = kTitle;
  for (const Panel& panel : picture.panels)
    if (panel.end > panel.begin) y = PanelDrawing(drawing, panel, y).draw();
  double x = kLeft;
  for (const auto& [kind, meaning] : kLegendKinds) {
    drawing.box(x, y + 2, 10, 10, kind, meaning);
    drawing.text(x + 14, y + 11, "row", "start", meaning);
    x += 14 + kLetter * 0.92 * static_cast<double>(std::string_view(meaning).size()) + 16;
  }
  return drawing.finish(y + kLegend);
}

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
  const std::string skeleton = trace.skeleton.empty() ? "" : ", skeleton of the " + trace.skeleton;
  picture.title =
      fmt::format("{} of step {} on rank {} of {}, mesh {}, {}{}", unit, step.number, trace.rank, trace.ranks,
                  text_of(trace.mesh, " × "), trace.on_device() ? trace.device : "host", skeleton);
  for (const char* phase : {"forward", "backward"}) picture.panels.push_back(panel_of(trace, unit, step.number, phase));
  return svg_of(picture);
}

}  // namespace shard8::trace
