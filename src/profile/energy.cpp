// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/energy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>

#include "base/text.hpp"

namespace shard8::profile {
namespace {

using PlainJson = nlohmann::json;
constexpr auto kReplace = PlainJson::error_handler_t::replace;  // names of hosts may have other bytes than UTF-8

/// On rank 0 what ranks told; null on others.
std::vector<PlainJson> told(const PlainJson& mine, const Gather& gather) {
  std::vector<PlainJson> all;
  for (const std::string& text : gather.texts(mine.dump(-1, ' ', false, kReplace)))
    all.push_back(PlainJson::parse(text));
  return all;
}

EnergyKind kind_of(const PlainJson& number) { return static_cast<EnergyKind>(number.get<int>()); }

PlainJson of_sampled(const Sampled& s) { return {s.min, s.max, s.sum, s.samples}; }
Sampled sampled_of(const PlainJson& j) {
  return {.min = j[0].get<double>(),
          .max = j[1].get<double>(),
          .sum = j[2].get<double>(),
          .samples = j[3].get<std::int64_t>()};
}

/// Kinds that every node has, none of which is missing. A kind that a node lacks is said to be missing there.
void find_complete(EnergyDirectory& directory, const std::map<std::string, std::string>& host_of_node) {
  for (int k = 0; k < kEnergyKinds; ++k) {
    const auto kind = static_cast<EnergyKind>(k);
    std::set<std::string> has;
    for (const auto& counter : directory.counters)
      if (counter.kind == kind) has.insert(counter.node);
    if (has.empty()) continue;
    bool all = std::none_of(directory.missing.begin(), directory.missing.end(),
                            [kind](const auto& missing) { return missing.kind == kind; });
    for (const auto& [node, host] : host_of_node) {
      if (has.contains(node)) continue;
      if (all) directory.missing.push_back({kind, host, "it has no such counter, but other nodes of the job have"});
      all = false;
    }
    if (all) directory.complete.push_back(kind);
  }
}

}  // namespace

EnergyDirectory share_counters(EnergySources& mine, const EnergyPlace& place, const Gather& gather) {
  PlainJson tell{
      {"node", place.node}, {"host", place.host}, {"counters", PlainJson::array()}, {"missing", PlainJson::array()}};
  for (const auto& c : mine.counters) tell["counters"].push_back({static_cast<int>(c->kind()), c->name()});
  for (const auto& m : mine.missing) tell["missing"].push_back({static_cast<int>(m.kind), m.why});
  const std::vector<PlainJson> all = told(tell, gather);

  EnergyDirectory directory;
  std::string text;
  if (place.rank == 0) {
    std::map<std::string, std::string> host_of_node;
    std::map<std::tuple<std::string, EnergyKind, std::string>, std::size_t> known;
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      const auto node = all[rank]["node"].get<std::string>();
      const auto host = host_of_node.emplace(node, all[rank]["host"].get<std::string>()).first->second;
      for (const PlainJson& c : all[rank]["counters"]) {
        const auto [at, is_new] =
            known.try_emplace({node, kind_of(c[0]), c[1].get<std::string>()}, directory.counters.size());
        if (is_new)
          directory.counters.push_back({.kind = kind_of(c[0]),
                                        .name = c[1].get<std::string>(),
                                        .node = node,
                                        .host = host,
                                        .reader = static_cast<int>(rank)});
        directory.counters[at->second].ranks.push_back(static_cast<int>(rank));
      }
    }
    std::set<std::tuple<std::string, EnergyKind, std::string>> said;
    for (const PlainJson& of_rank : all)
      for (const PlainJson& m : of_rank["missing"]) {
        const auto node = of_rank["node"].get<std::string>();
        const EnergyKind kind = kind_of(m[0]);
        // Another rank of the node may be allowed more.
        const bool is_read = kind != EnergyKind::gpu &&
                             std::any_of(directory.counters.begin(), directory.counters.end(),
                                         [&](const auto& c) { return c.node == node && c.kind == kind; }) &&
                             std::any_of(all.begin(), all.end(), [&](const PlainJson& other) {
                               return other["node"] == node && other["missing"].empty();
                             });
        if (is_read || !said.emplace(node, kind, m[1].get<std::string>()).second) continue;
        directory.missing.push_back({kind, host_of_node.at(node), m[1].get<std::string>()});
      }
    find_complete(directory, host_of_node);
    PlainJson tell_all{{"readers", PlainJson::array()}, {"complete", PlainJson::array()}};
    for (const auto& c : directory.counters)
      tell_all["readers"].push_back({c.reader, static_cast<int>(c.kind), c.name});
    for (const EnergyKind kind : directory.complete) tell_all["complete"].push_back(static_cast<int>(kind));
    text = tell_all.dump(-1, ' ', false, kReplace);
  }
  gather.broadcast(text, 0);
  const PlainJson agreed = PlainJson::parse(text);
  std::erase_if(mine.counters, [&](const auto& counter) {
    return std::none_of(agreed["readers"].begin(), agreed["readers"].end(), [&](const PlainJson& reader) {
      return reader[0] == place.rank && kind_of(reader[1]) == counter->kind() && reader[2] == counter->name();
    });
  });
  if (place.rank != 0)
    for (const PlainJson& kind : agreed["complete"]) directory.complete.push_back(kind_of(kind));
  return directory;
}

EnergyFigures energy_over_ranks(const EnergyCounts& mine, std::int64_t steps, double tokens, const Gather& gather) {
  PlainJson tell{{"cpu", mine.thread_cpu_s}, {"counted", PlainJson::array()}};
  for (const CountedEnergy& c : mine.counted) {
    tell["counted"].push_back({{"kind", static_cast<int>(c.kind)},
                               {"name", c.name},
                               {"of", {c.joules, c.seconds, c.run_joules, c.run_seconds}},
                               {"watts", of_sampled(c.watts)},
                               {"sm", of_sampled(c.sm_mhz)},
                               {"memory", of_sampled(c.memory_mhz)},
                               {"at_limit", of_sampled(c.at_limit)},
                               {"failed", c.failed}});
    if (c.limit_w) tell["counted"].back()["limit"] = *c.limit_w;
  }
  const std::vector<PlainJson> all = told(tell, gather);

  EnergyFigures figures;
  if (all.empty()) return figures;
  figures.steps = steps;
  figures.tokens = tokens;
  figures.missing = mine.directory.missing;
  std::set<EnergyKind> complete(mine.directory.complete.begin(), mine.directory.complete.end());
  for (const EnergyDirectory::Counter& counter : mine.directory.counters) {
    const PlainJson& of_reader = all.at(static_cast<std::size_t>(counter.reader));
    for (const PlainJson& c : of_reader["counted"]) {
      if (kind_of(c["kind"]) != counter.kind || c["name"] != counter.name) continue;
      EnergyFigures::Row row;
      row.kind = counter.kind;
      row.name = counter.name;
      row.joules = c["of"][0].get<double>();
      row.seconds = c["of"][1].get<double>();
      row.run_joules = c["of"][2].get<double>();
      row.run_seconds = c["of"][3].get<double>();
      row.watts = sampled_of(c["watts"]);
      row.sm_mhz = sampled_of(c["sm"]);
      row.memory_mhz = sampled_of(c["memory"]);
      row.at_limit = sampled_of(c["at_limit"]);
      row.failed = c["failed"].get<std::string>();
      if (c.contains("limit")) row.limit_w = c["limit"].get<double>();
      row.host = counter.host;
      row.node = counter.node;
      row.ranks = counter.ranks;
      if (row.run_seconds > 0)
        figures.sampling_share = std::max(figures.sampling_share, of_reader["cpu"].get<double>() / row.run_seconds);
      if (!row.failed.empty()) {
        complete.erase(row.kind);
        figures.missing.push_back({row.kind, row.host, "during the run: " + row.failed});
      }
      figures.rows.push_back(std::move(row));
    }
  }
  figures.complete.assign(complete.begin(), complete.end());
  std::map<std::string, std::size_t> node_at;
  for (const EnergyFigures::Row& row : figures.rows) {
    if (!complete.contains(row.kind)) continue;
    figures.by_kind[static_cast<std::size_t>(row.kind)] += row.joules;
    figures.joules += row.joules;
    figures.run_joules += row.run_joules;
    figures.seconds = std::max(figures.seconds, row.seconds);
    figures.run_seconds = std::max(figures.run_seconds, row.run_seconds);
    const auto [at, is_new] = node_at.emplace(row.node, figures.nodes.size());
    if (is_new) figures.nodes.push_back({.host = row.host});
    figures.nodes[at->second].joules += row.joules;
  }
  for (EnergyFigures::Node& node : figures.nodes) node.watts = figures.seconds > 0 ? node.joules / figures.seconds : 0;
  return figures;
}

namespace {

using OrderedJson = nlohmann::ordered_json;

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

OrderedJson json_of(const Sampled& s) {
  return {{"min", s.min}, {"mean", s.mean()}, {"max", s.max}, {"samples", s.samples}};
}

OrderedJson json_of(const EnergyFigures::Row& row) {
  OrderedJson json{{"kind", name_of(row.kind)}, {"name", row.name}, {"host", row.host}, {"ranks", row.ranks}};
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
  OrderedJson members = OrderedJson::object();
  if (figures.known()) {
    OrderedJson energy{
        {"joules", figures.joules},
        {"joules_per_step", figures.joules / static_cast<double>(std::max<std::int64_t>(figures.steps, 1))}};
    if (figures.tokens > 0) energy["joules_per_token"] = figures.joules / figures.tokens;
    energy["mean_watts"] = figures.watts();
    energy["seconds"] = figures.seconds;
    energy["steps"] = figures.steps;
    energy["run_joules"] = figures.run_joules;
    energy["run_seconds"] = figures.run_seconds;
    energy["counted"] = OrderedJson::object();
    for (const EnergyKind kind : figures.complete)
      energy["counted"][name_of(kind)] = figures.by_kind[static_cast<std::size_t>(kind)];
    energy["nodes"] = OrderedJson::array();
    for (const EnergyFigures::Node& node : figures.nodes)
      energy["nodes"].push_back({{"host", node.host}, {"joules", node.joules}, {"mean_watts", node.watts}});
    energy["counters"] = OrderedJson::array();
    for (const EnergyFigures::Row& row : figures.rows) energy["counters"].push_back(json_of(row));
    energy["sampling_cpu_share"] = figures.sampling_share;
    members["energy"] = std::move(energy);
  }
  if (const std::string missing = figures.missing_text(); !missing.empty()) members["energy_missing"] = missing;
  return members.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace shard8::profile
