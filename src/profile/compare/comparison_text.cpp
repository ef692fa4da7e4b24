// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "profile/compare/comparison.hpp"

namespace shard8::profile {
namespace {

using Json = nlohmann::ordered_json;
using Verdict = ComparedFigure::Verdict;

std::string value_text(std::optional<double> value, double scale) {
  if (!value) return "-";
  constexpr double kSmall = 0.1;  // chosen: below it, three decimals are less than three digits
  const double shown = scale * *value;
  if (shown == static_cast<double>(static_cast<long long>(shown))) return fmt::format("{:.0f}", shown);
  return std::abs(shown) < kSmall ? fmt::format("{:.3g}", shown) : fmt::format("{:.3f}", shown);
}

/// The margin as a share of the first value, left out where it is larger than that value.
std::string margin_text(double share) { return share <= 1 ? fmt::format("± {:.1f} %", 100 * share) : "± > 100 %"; }

/// Rounded down, so that 100 % is no doubt at all.
std::string confidence_text(double confidence) { return fmt::format("{:.1f} %", std::floor(1000 * confidence) / 10); }

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::worse:
      return "worse";
    case Verdict::better:
      return "better";
    case Verdict::slower:
      return "slower";
    case Verdict::faster:
      return "faster";
    case Verdict::within:
    case Verdict::not_judged:
      break;
  }
  return "";
}

/// "8.7 to 10.2, projected" of a figure.
std::string band_text(const ComparedFigure& f, double scale) {
  const auto range = [&](const Band& band) {
    return fmt::format("{} to {}", value_text(band.low, scale), value_text(band.high, scale));
  };
  if (f.a_band && f.b_band) return fmt::format("projected: A {}, B {}", range(*f.a_band), range(*f.b_band));
  if (f.a_band || f.b_band)
    return fmt::format("projected: {} {}", f.a_band ? "A" : "B", range(f.a_band ? *f.a_band : *f.b_band));
  return {};
}

/// What the columns of a comparison are called.
struct Heads {
  std::string a = "A", b = "B";
};

Heads heads_of(const Comparison& c) {
  return {c.a_projected.empty() ? "A" : "A projected", c.b_projected.empty() ? "B" : "B projected"};
}

std::string table(const ComparedKind& kind, const Heads& heads) {
  const std::string title = kind.name + (kind.unit.empty() ? "" : ", " + kind.unit);
  const bool equal = std::all_of(kind.figures.begin(), kind.figures.end(),
                                 [](const ComparedFigure& f) { return f.a == f.b && !f.a_band && !f.b_band; });
  if (equal) return fmt::format("{}: equal\n", title);
  const bool judged = std::any_of(kind.figures.begin(), kind.figures.end(),
                                  [](const ComparedFigure& f) { return f.margin.has_value(); });
  std::string text = fmt::format("{:<36} {:>16} {:>16} {:>10}", title, heads.a, heads.b, "change");
  text += judged ? fmt::format(" {:>10} {:>10}\n", "known to", "confidence") : "\n";
  for (const ComparedFigure& figure : kind.figures) {
    const auto change = figure.change();
    std::string line =
        fmt::format("  {:<34} {:>16} {:>16} {:>10} {:>10} {:>10}  {}", figure.name, value_text(figure.a, kind.scale),
                    value_text(figure.b, kind.scale), change ? change_text(*change) : "",
                    figure.margin && figure.a && *figure.a > 0 ? margin_text(*figure.margin / *figure.a) : "",
                    figure.confidence && change ? confidence_text(*figure.confidence) : "",
                    figure.in_band ? "within" : name_of(figure.verdict));
    if (const std::string band = band_text(figure, kind.scale); !band.empty()) line += fmt::format("  ({})", band);
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

std::string validation_text(const Comparison& c) {
  if (!c.last_validation_a && !c.last_validation_b) return {};
  const auto shown = [](std::optional<double> loss) { return loss ? fmt::format("{}", *loss) : std::string("none"); };
  std::string text =
      fmt::format("validation loss: last {} and {}", shown(c.last_validation_a), shown(c.last_validation_b));
  if (!c.validation) return text + '\n';
  const LossDifference& loss = *c.validation;
  if (loss.common == 0) return text + "; no step has one in both runs\n";
  if (!loss.first) return text + fmt::format("; equal in all {} that both runs have\n", loss.common);
  return text + fmt::format(
                    "; behind step {} the first that differs, {} and {}; largest relative difference {:.3g}, "
                    "behind step {}, of {} that both runs have\n",
                    *loss.first, loss.a, loss.b, loss.largest, loss.largest_step, loss.common);
}

Json number(std::optional<double> value) { return value ? Json(*value) : Json(nullptr); }

Json json_of(const ComparedKind& kind) {
  Json rows = Json::array();
  for (const ComparedFigure& f : kind.figures) {
    rows.push_back({{"name", f.name},
                    {"a", number(f.a)},
                    {"b", number(f.b)},
                    {"change", number(f.change())},
                    {"margin", number(f.margin)},
                    {"confidence", number(f.confidence)},
                    {"verdict", nullptr}});
    if (f.verdict != Verdict::not_judged)
      rows.back()["verdict"] = f.verdict == Verdict::within ? "within" : name_of(f.verdict);
    if (f.a_band) rows.back()["a_band"] = {f.a_band->low, f.a_band->high};
    if (f.b_band) rows.back()["b_band"] = {f.b_band->low, f.b_band->high};
  }
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
  if (!c.a_projected.empty()) object["a_projected_on"] = c.a_projected;
  if (!c.b_projected.empty()) object["b_projected_on"] = c.b_projected;
  if (!c.a_skeleton.empty()) object["a_skeleton"] = c.a_skeleton;
  if (!c.b_skeleton.empty()) object["b_skeleton"] = c.b_skeleton;
  object["differences"] = Json::array();
  for (const Difference& d : c.differences)
    object["differences"].push_back({{"what", d.what}, {"name", d.name}, {"a", d.a}, {"b", d.b}});
  object["figures"] = Json::object();
  for (const ComparedKind& kind : c.kinds) object["figures"][kind.name] = json_of(kind);
  object["loss"] = c.loss ? json_of(*c.loss) : Json(nullptr);
  if (c.last_validation_a || c.last_validation_b) {
    object["validation"] = c.validation ? json_of(*c.validation) : Json::object();
    object["validation"]["last_a"] = number(c.last_validation_a);
    object["validation"]["last_b"] = number(c.last_validation_b);
  }
  object["times_judged"] = c.times_judged;
  object["notes"] = c.notes;
  object["exceeded"] = c.exceeded;
  object["slower"] = c.slower;
  return object;
}

}  // namespace

std::string change_text(const ComparedFigure& figure, const ComparedKind& kind) {
  if (const auto change = figure.change()) return change_text(*change);
  return fmt::format("from {} to {}{}{}", value_text(figure.a, kind.scale), value_text(figure.b, kind.scale),
                     kind.unit.empty() ? "" : " ", kind.unit);
}

std::string change_text(double change) {
  return change < 9 ? fmt::format("{:+.1f} %", 100 * change) : fmt::format("x {:.1f}", 1 + change);
}

std::string to_text(const Comparison& c, const CompareLimits& limits) {
  const auto on = [](const std::string& machine, const std::string& skeleton) {
    if (!skeleton.empty()) return fmt::format(", a skeleton of the {}", skeleton);
    return machine.empty() ? std::string() : fmt::format(", projected on {}", machine);
  };
  std::string text =
      fmt::format("A: {}{}\nB: {}{}\n\n", c.a, on(c.a_projected, c.a_skeleton), c.b, on(c.b_projected, c.b_skeleton));
  for (const Difference& d : c.differences)
    text += fmt::format("differs: {}{}{}  A: {}  B: {}\n", d.what, d.name.empty() ? "" : " ", d.name, d.a, d.b);
  if (!c.differences.empty()) text += '\n';
  for (const ComparedKind& kind : c.kinds) text += table(kind, heads_of(c)) + '\n';
  if (c.loss) text += loss_text(*c.loss);
  text += validation_text(c);
  for (const std::string& note : c.notes) text += fmt::format("note: {}\n", note);
  if (!c.slower.empty()) {
    text += fmt::format("B is slower, within the limit, with at least {:g} % confidence:\n", 100 * kCompareConfidence);
    for (const std::string& what : c.slower) text += fmt::format("  {}\n", what);
  }
  if (c.exceeded.empty() && !c.times_judged)
    return text + fmt::format("no time is judged; all else is within {:g} %\n", limits.percent);
  if (c.exceeded.empty())
    return text + fmt::format("within {:g} %, or less than is known with {:g} % confidence\n", limits.percent,
                              100 * kCompareConfidence);
  text += fmt::format("B exceeds the limits ({:g} %, losses {:g}; times with at least {:g} % confidence):\n",
                      limits.percent, limits.loss_limit(), 100 * kCompareConfidence);
  for (const std::string& what : c.exceeded) text += fmt::format("  {}\n", what);
  return text;
}

std::string to_json(std::span<const Comparison> comparisons, const CompareLimits& limits) {
  Json object{{"schema", 2}, {"threshold_percent", limits.percent}, {"loss_limit", limits.loss_limit()}};
  object["confidence"] = kCompareConfidence;
  object["exceeded"] =
      std::any_of(comparisons.begin(), comparisons.end(), [](const Comparison& c) { return !c.exceeded.empty(); });
  object["comparisons"] = Json::array();
  for (const Comparison& c : comparisons) object["comparisons"].push_back(json_of(c));
  return object.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace shard8::profile
