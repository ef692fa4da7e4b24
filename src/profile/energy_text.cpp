// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "profile/energy.hpp"

namespace shard8::profile {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostRows = 16;   ///< chosen: of the printed table; summary.json has all
constexpr double kShortMeasure_s = 10;  ///< the 0.1 s after which a device renews its counter are 1 % of it

std::string_view plural_of(EnergyKind kind) {
  constexpr std::string_view names[kEnergyKinds] = {"GPUs", "packages", "dram"};
  return names[static_cast<std::size_t>(kind)];
}

/// "0 to 3", "0, 2".
std::string text_of(const std::vector<int>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", ranks[i]);
    if (last > i) text += fmt::format("{}{}", last > i + 1 ? " to " : ", ", ranks[last]);
    i = last;
  }
  return text;
}

std::string range_of(const Sampled& s) {
  return s.samples > 0 ? fmt::format("{:.0f} to {:.0f}", s.min, s.max) : std::string("-");
}

Json json_of(const Sampled& s) { return {{"min", s.min}, {"mean", s.mean()}, {"max", s.max}, {"samples", s.samples}}; }

Json json_of(const EnergyFigures::Row& row) {
  Json json{{"kind", name_of(row.kind)}, {"name", row.name}, {"host", row.host}, {"ranks", row.ranks}};
  if (!row.failed.empty()) {
    json["energy_missing"] = row.failed;
    return json;
  }
  json["run_joules"] = row.run_joules;
  if (row.seconds <= 0) return json;
  json["joules"] = row.joules;
  json["mean_watts"] = row.joules / row.seconds;
  if (row.watts.samples > 0) json["watts"] = json_of(row.watts);
  if (row.limit_w) json["limit_watts"] = *row.limit_w;
  if (row.sm_mhz.samples > 0) json["sm_mhz"] = json_of(row.sm_mhz);
  if (row.memory_mhz.samples > 0) json["memory_mhz"] = json_of(row.memory_mhz);
  if (row.at_limit.samples > 0) json["share_at_power_limit"] = row.at_limit.mean();
  return json;
}

void table(std::string& text, const EnergyFigures& figures) {
  const auto out = std::back_inserter(text);
  const bool clocks = std::any_of(figures.rows.begin(), figures.rows.end(),
                                  [](const auto& row) { return row.sm_mhz.samples > 0 || row.limit_w; });
  fmt::format_to(out, "{:<44}{:<16}{:>14}{:>10}{:>14}", "energy of", "ranks", "joules", "mean W", "min to max W");
  if (clocks) fmt::format_to(out, "{:>14}{:>10}{:>10}{:>12}", "SM MHz", "mem. MHz", "limit W", "at limit %");
  text += '\n';
  std::size_t shown = 0;
  for (const EnergyFigures::Row& row : figures.rows) {
    if (shown == kMostRows) break;
    ++shown;
    fmt::format_to(out, "{:<44}{:<16}", row.host + ' ' + row.name, text_of(row.ranks));
    if (!row.failed.empty() || row.seconds <= 0) {
      text += "  not read to the end\n";
      continue;
    }
    fmt::format_to(out, "{:>14.1f}{:>10.1f}{:>14}", row.joules, row.joules / row.seconds, range_of(row.watts));
    if (row.sm_mhz.samples > 0 || row.limit_w)
      fmt::format_to(out, "{:>14}{:>10}{:>10}{:>12}", range_of(row.sm_mhz),
                     row.memory_mhz.samples > 0 ? fmt::format("{:.0f}", row.memory_mhz.mean()) : "-",
                     row.limit_w ? fmt::format("{:.0f}", *row.limit_w) : "-",
                     row.at_limit.samples > 0 ? fmt::format("{:.1f}", 100 * row.at_limit.mean()) : "-");
    text += '\n';
  }
  if (figures.rows.size() > shown) fmt::format_to(out, "and {} more, in summary.json\n", figures.rows.size() - shown);
}

}  // namespace

std::string EnergyFigures::missing_text() const {
  std::vector<std::pair<std::string, std::vector<std::string>>> hosts_of;  // by kind and reason
  for (const auto& m : missing) {
    const std::string what = fmt::format("{}: {}", plural_of(m.kind), m.why);
    auto at = std::find_if(hosts_of.begin(), hosts_of.end(), [&](const auto& known) { return known.first == what; });
    if (at == hosts_of.end()) at = hosts_of.insert(at, {what, {}});
    if (std::find(at->second.begin(), at->second.end(), m.host) == at->second.end()) at->second.push_back(m.host);
  }
  std::string text;
  for (const auto& [what, hosts] : hosts_of) {
    text += text.empty() ? "" : "; ";
    text += what + " (" + hosts.front();
    if (hosts.size() > 1)
      text += fmt::format(" and {} more", base::count(static_cast<std::int64_t>(hosts.size() - 1), "host", "hosts"));
    text += ')';
  }
  if (text.empty() && !known()) text = "no step was measured to its end";
  return text;
}

std::string to_text(const EnergyFigures& figures) {
  std::string text;
  const auto out = std::back_inserter(text);
  if (figures.known()) {
    text += '\n';
    table(text, figures);
    const auto steps = static_cast<double>(std::max<std::int64_t>(figures.steps, 1));
    fmt::format_to(out, "energy: {:.1f} J in {:.3f} s, {:.4g} J a step", figures.joules, figures.seconds,
                   figures.joules / steps);
    if (figures.tokens > 0) fmt::format_to(out, ", {:.4g} J a token", figures.joules / figures.tokens);
    fmt::format_to(out, "   mean: {:.1f} W", figures.watts());
    std::string of;
    for (const EnergyKind kind : figures.complete)
      of += fmt::format("{}{} {:.1f} W", of.empty() ? "" : ", ", plural_of(kind),
                        figures.by_kind[static_cast<std::size_t>(kind)] / figures.seconds);
    fmt::format_to(out, " ({})   whole run: {:.1f} J in {:.1f} s\n", of, figures.run_joules, figures.run_seconds);
    if (figures.nodes.size() > 1)
      for (std::size_t n = 0; n < std::min(figures.nodes.size(), kMostRows); ++n)
        fmt::format_to(out, "energy of {}: {:.1f} J, {:.1f} W\n", figures.nodes[n].host, figures.nodes[n].joules,
                       figures.nodes[n].watts);
    if (figures.seconds < kShortMeasure_s)
      fmt::format_to(out,
                     "energy was measured for less than {:g} s: devices renew their counters only about each 0.1 s\n",
                     kShortMeasure_s);
  }
  if (const std::string missing = figures.missing_text(); !missing.empty())
    fmt::format_to(out, "{}energy not read: {}\n", figures.known() ? "" : "\n", missing);
  return text;
}

std::string to_json(const EnergyFigures& figures) {
  Json members = Json::object();
  if (figures.known()) {
    Json energy{{"joules", figures.joules},
                {"joules_per_step", figures.joules / static_cast<double>(std::max<std::int64_t>(figures.steps, 1))}};
    if (figures.tokens > 0) energy["joules_per_token"] = figures.joules / figures.tokens;
    energy["mean_watts"] = figures.watts();
    energy["seconds"] = figures.seconds;
    energy["steps"] = figures.steps;
    energy["run_joules"] = figures.run_joules;
    energy["run_seconds"] = figures.run_seconds;
    energy["counted"] = Json::object();
    for (const EnergyKind kind : figures.complete)
      energy["counted"][name_of(kind)] = figures.by_kind[static_cast<std::size_t>(kind)];
    energy["nodes"] = Json::array();
    for (const EnergyFigures::Node& node : figures.nodes)
      energy["nodes"].push_back({{"host", node.host}, {"joules", node.joules}, {"mean_watts", node.watts}});
    energy["counters"] = Json::array();
    for (const EnergyFigures::Row& row : figures.rows) energy["counters"].push_back(json_of(row));
    energy["sampling_cpu_share"] = figures.sampling_share;
    members["energy"] = std::move(energy);
  }
  if (const std::string missing = figures.missing_text(); !missing.empty()) members["energy_missing"] = missing;
  return members.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace shard8::profile
