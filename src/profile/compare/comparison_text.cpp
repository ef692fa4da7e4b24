// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "profile/compare/comparison.hpp"

namespace shard8::profile {
namespace {

using Json = nlohmann::ordered_json;
using Verdict = ComparedFigure::Verdict;

std::string value_text(std::optional<double> value, double scale) {
  if (!value) return "-";
  const double shown = scale * *value;
  return shown == static_cast<double>(static_cast<long long>(shown)) ? fmt::format("{:.0f}", shown)
                                                                     : fmt::format("{:.3f}", shown);
}

/// The spread as a share of the first value, left out where it is larger than that value.
std::string spread_text(double share) { return share <= 1 ? fmt::format("{:.1f} %", 100 * share) : "> 100 %"; }

std::string_view name_of(Verdict verdict) {
  return verdict == Verdict::worse ? "worse" : verdict == Verdict::better ? "better" : "";
}

std::string table(const ComparedKind& kind) {
  const std::string title = kind.name + (kind.unit.empty() ? "" : ", " + kind.unit);
  const bool equal =
      std::all_of(kind.figures.begin(), kind.figures.end(), [](const ComparedFigure& f) { return f.a == f.b; });
  if (equal) return fmt::format("{}: equal\n", title);
  std::string text = fmt::format("{:<36} {:>16} {:>16} {:>10} {:>9}\n", title, "A", "B", "change", "spread");
  for (const ComparedFigure& figure : kind.figures) {
    const auto change = figure.change();
    std::string line =
        fmt::format("  {:<34} {:>16} {:>16} {:>10} {:>9}  {}", figure.name, value_text(figure.a, kind.scale),
                    value_text(figure.b, kind.scale), change ? change_text(*change) : "",
                    figure.spread && figure.a && *figure.a > 0 ? spread_text(*figure.spread / *figure.a) : "",
                    name_of(figure.verdict));
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

std::string loss_text(const LossDifference& loss) {
  if (loss.common == 0) return "loss: no step is in both runs\n";
  if (!loss.first) return fmt::format("loss: equal in all {} common steps\n", loss.common);
  return fmt::format(
      "loss: step {} is the first that differs, {} and {}; largest relative difference {:.3g}, in "
      "step {}, of {} common steps\n",
      *loss.first, loss.a, loss.b, loss.largest, loss.largest_step, loss.common);
}

Json number(std::optional<double> value) { return value ? Json(*value) : Json(nullptr); }

Json json_of(const ComparedKind& kind) {
  Json rows = Json::array();
  for (const ComparedFigure& f : kind.figures)
    rows.push_back({{"name", f.name},
                    {"a", number(f.a)},
                    {"b", number(f.b)},
                    {"change", number(f.change())},
                    {"spread", number(f.spread)},
                    {"verdict", f.verdict == Verdict::within ? "within" : name_of(f.verdict)}});
  return rows;
}

Json json_of(const LossDifference& loss) {
  Json object{{"common_steps", loss.common}, {"only_a", loss.only_a}, {"only_b", loss.only_b}};
  object["first_different_step"] = loss.first ? Json(*loss.first) : Json(nullptr);
  if (loss.first) {
    object["a"] = loss.a;
    object["b"] = loss.b;
    object["largest_step"] = loss.largest_step;
  }
  object["largest_relative"] = loss.largest;
  return object;
}

Json json_of(const Comparison& c) {
  Json object{{"a", c.a}, {"b", c.b}};
  object["differences"] = Json::array();
  for (const Difference& d : c.differences)
    object["differences"].push_back({{"what", d.what}, {"name", d.name}, {"a", d.a}, {"b", d.b}});
  object["figures"] = Json::object();
  for (const ComparedKind& kind : c.kinds) object["figures"][kind.name] = json_of(kind);
  object["loss"] = c.loss ? json_of(*c.loss) : Json(nullptr);
  object["notes"] = c.notes;
  object["exceeded"] = c.exceeded;
  return object;
}

}  // namespace

std::string change_text(double change) {
  return change < 9 ? fmt::format("{:+.1f} %", 100 * change) : fmt::format("x {:.1f}", 1 + change);
}

std::string to_text(const Comparison& c, const CompareLimits& limits) {
  std::string text = fmt::format("A: {}\nB: {}\n\n", c.a, c.b);
  for (const Difference& d : c.differences)
    text += fmt::format("differs: {}{}{}  A: {}  B: {}\n", d.what, d.name.empty() ? "" : " ", d.name, d.a, d.b);
  if (!c.differences.empty()) text += '\n';
  for (const ComparedKind& kind : c.kinds) text += table(kind) + '\n';
  if (c.loss) text += loss_text(*c.loss);
  for (const std::string& note : c.notes) text += fmt::format("note: {}\n", note);
  if (c.exceeded.empty()) return text + fmt::format("within {:g} % and the spread of the steps\n", limits.percent);
  text += fmt::format("B exceeds the limits ({:g} %, losses {:g}):\n", limits.percent, limits.loss_limit());
  for (const std::string& what : c.exceeded) text += fmt::format("  {}\n", what);
  return text;
}

std::string to_json(std::span<const Comparison> comparisons, const CompareLimits& limits) {
  Json object{{"schema", 1}, {"threshold_percent", limits.percent}, {"loss_limit", limits.loss_limit()}};
  object["exceeded"] =
      std::any_of(comparisons.begin(), comparisons.end(), [](const Comparison& c) { return !c.exceeded.empty(); });
  object["comparisons"] = Json::array();
  for (const Comparison& c : comparisons) object["comparisons"].push_back(json_of(c));
  return object.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace shard8::profile
