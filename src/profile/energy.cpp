// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/energy.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>

#include "base/text.hpp"

namespace shard8::profile {
namespace {

using Json = nlohmann::json;
constexpr auto kReplace = Json::error_handler_t::replace;  // names of hosts may have other bytes than UTF-8

/// On rank 0 what ranks told; null on others.
std::vector<Json> told(const Json& mine, const Gather& gather) {
  std::vector<Json> all;
  for (const std::string& text : gather.texts(mine.dump(-1, ' ', false, kReplace))) all.push_back(Json::parse(text));
  return all;
}

EnergyKind kind_of(const Json& number) { return static_cast<EnergyKind>(number.get<int>()); }

Json of_sampled(const Sampled& s) { return {s.min, s.max, s.sum, s.samples}; }
Sampled sampled_of(const Json& j) {
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
  Json tell{{"node", place.node}, {"host", place.host}, {"counters", Json::array()}, {"missing", Json::array()}};
  for (const auto& c : mine.counters) tell["counters"].push_back({static_cast<int>(c->kind()), c->name()});
  for (const auto& m : mine.missing) tell["missing"].push_back({static_cast<int>(m.kind), m.why});
  const std::vector<Json> all = told(tell, gather);

  EnergyDirectory directory;
  std::string text;
  if (place.rank == 0) {
    std::map<std::string, std::string> host_of_node;
    std::map<std::tuple<std::string, EnergyKind, std::string>, std::size_t> known;
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      const auto node = all[rank]["node"].get<std::string>();
      const auto host = host_of_node.emplace(node, all[rank]["host"].get<std::string>()).first->second;
      for (const Json& c : all[rank]["counters"]) {
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
    for (const Json& of_rank : all)
      for (const Json& m : of_rank["missing"]) {
        const auto node = of_rank["node"].get<std::string>();
        const EnergyKind kind = kind_of(m[0]);
        // Another rank of the node may be allowed more.
        const bool is_read = kind != EnergyKind::gpu &&
                             std::any_of(directory.counters.begin(), directory.counters.end(),
                                         [&](const auto& c) { return c.node == node && c.kind == kind; }) &&
                             std::any_of(all.begin(), all.end(), [&](const Json& other) {
                               return other["node"] == node && other["missing"].empty();
                             });
        if (is_read || !said.emplace(node, kind, m[1].get<std::string>()).second) continue;
        directory.missing.push_back({kind, host_of_node.at(node), m[1].get<std::string>()});
      }
    find_complete(directory, host_of_node);
    Json tell_all{{"readers", Json::array()}, {"complete", Json::array()}};
    for (const auto& c : directory.counters)
      tell_all["readers"].push_back({c.reader, static_cast<int>(c.kind), c.name});
    for (const EnergyKind kind : directory.complete) tell_all["complete"].push_back(static_cast<int>(kind));
    text = tell_all.dump(-1, ' ', false, kReplace);
  }
  gather.broadcast(text, 0);
  const Json agreed = Json::parse(text);
  std::erase_if(mine.counters, [&](const auto& counter) {
    return std::none_of(agreed["readers"].begin(), agreed["readers"].end(), [&](const Json& reader) {
      return reader[0] == place.rank && kind_of(reader[1]) == counter->kind() && reader[2] == counter->name();
    });
  });
  if (place.rank != 0)
    for (const Json& kind : agreed["complete"]) directory.complete.push_back(kind_of(kind));
  return directory;
}

EnergyFigures energy_over_ranks(const EnergyCounts& mine, std::int64_t steps, double tokens, const Gather& gather) {
  Json tell{{"cpu", mine.thread_cpu_s}, {"counted", Json::array()}};
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
  const std::vector<Json> all = told(tell, gather);

  EnergyFigures figures;
  if (all.empty()) return figures;
  figures.steps = steps;
  figures.tokens = tokens;
  figures.missing = mine.directory.missing;
  std::set<EnergyKind> complete(mine.directory.complete.begin(), mine.directory.complete.end());
  for (const EnergyDirectory::Counter& counter : mine.directory.counters) {
    const Json& of_reader = all.at(static_cast<std::size_t>(counter.reader));
    for (const Json& c : of_reader["counted"]) {
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

}  // namespace shard8::profile
