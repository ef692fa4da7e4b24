// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <vector>

#include "base/error.hpp"
#include "machine/times.hpp"

namespace shard8::machine {

using profile::Collective;

namespace {

double whole(std::uint64_t bytes) { return static_cast<double>(bytes); }

/// What each rank passes on to others, as a share of the whole: nccl-tests' factor between algbw and busbw.
double passed_on(Collective op, int ranks) {
  constexpr std::uint64_t kWhole = 1 << 20;
  return profile::busbw({op, "", ranks, "", kWhole}, 1) / kWhole;
}

void need(const Machine& machine, const Figure& figure, std::string_view key, Collective op, const Placement& at) {
  if (figure.given()) return;
  base::fail(base::ExitCode::deck,
             "{}: {} is needed for {} over {} ranks on {} nodes: give it, or measure it (shard8 calibrate DECK --out "
             "FILE on as many nodes, or --import of nccl-tests or OSU figures)",
             machine.path, key, profile::name_of(op), at.ranks, at.nodes);
}

}  // namespace

double Times::ring_seconds(Collective op, const Placement& at, std::uint64_t bytes) const {
  const Machine& machine = machine_;
  const Constants& constants = constants_;
  const double ranks = at.ranks, nodes = at.nodes;
  if (at.nodes == 1) {
    need(machine, machine.link_bandwidth, "node.bandwidth", op, at);
    return constants.latency * value_of(machine.link_latency, 0) +
           whole(bytes) * passed_on(op, at.ranks) / (constants.bandwidth * machine.link_bandwidth.value);
  }
  need(machine, machine.rails, "network.rails", op, at);
  need(machine, machine.rail_bandwidth, "network.bandwidth", op, at);
  need(machine, machine.latency, "network.latency", op, at);
  const double share = at.per_node / std::max(machine.node_devices.value, static_cast<double>(at.per_node));
  const double top = std::max(1.0, value_of(machine.oversubscription, 1));
  const double network = constants.bandwidth * machine.rails.value * share * machine.rail_bandwidth.value / top;
  const double passes = op == Collective::all_reduce ? 2 : 1;
  const double over_network =
      op == Collective::send_receive
          ? whole(bytes) / (network / at.per_node)
          : passes * whole(bytes) * (op == Collective::all_to_all ? at.per_node : 1) * (nodes - 1) / nodes / network;
  if (at.per_node > 1) need(machine, machine.link_bandwidth, "node.bandwidth", op, at);
  const double in_node =
      at.per_node == 1 || !machine.link_bandwidth.given()
          ? 0
          : whole(bytes) * passed_on(op, at.ranks) / (constants.bandwidth * machine.link_bandwidth.value);
  const double first = constants.latency * machine.latency.value;
  const double moved = std::max(over_network, in_node);
  if (op == Collective::send_receive) return first + moved;
  const double each = constants.latency * value_of(machine.latency_rank, 0);
  if (op == Collective::all_to_all) return first + (nodes - 1) * each + moved;
  const double ring = passes * (first + (ranks - 1) * each) + moved;
  if (op != Collective::all_reduce) return ring;
  const double tree = 2 * std::ceil(std::log2(nodes)) * first + moved;
  return std::min(ring, tree);
}

Estimate Times::on_entries(Collective op, const Placement& at, std::uint64_t bytes) const {
  std::map<int, std::vector<std::pair<double, double>>> by_ranks;
  for (const CollectiveTime& entry : machine_.collectives)
    if (entry.op == op && entry.nodes == at.nodes && (at.nodes == 1 || entry.ranks == at.per_node))
      by_ranks[entry.ranks].emplace_back(whole(entry.bytes), entry.seconds);
  if (by_ranks.empty()) return {0, Known::rule, 1};
  auto nearest = by_ranks.begin();
  for (auto i = by_ranks.begin(); i != by_ranks.end(); ++i)
    if (std::abs(i->first - at.per_node) < std::abs(nearest->first - at.per_node)) nearest = i;
  auto& rows = nearest->second;
  std::sort(rows.begin(), rows.end());
  Estimate estimate = along(rows, whole(bytes));
  if (whole(bytes) > rows.back().first)
    require(estimate.factor, fmt::format("{} of {} bytes over {} ranks", profile::name_of(op), bytes, at.ranks),
            at.nodes == 1 ? "node_collectives" : "network_collectives");
  if (nearest->first != at.per_node) {
    // What nothing would take, on the line through the two smallest rows, is latency, and stays.
    double latency = 0;
    if (rows.size() > 1) {
      const double slope = (rows[1].second - rows[0].second) / (rows[1].first - rows[0].first);
      latency = std::clamp(rows[0].second - slope * rows[0].first, 0.0, estimate.seconds);
    }
    estimate.seconds =
        latency + (estimate.seconds - latency) * passed_on(op, at.per_node) / passed_on(op, nearest->first);
    const double few = by_ranks.begin()->first, many = by_ranks.rbegin()->first;
    const double factor = std::max(at.per_node / many, few / at.per_node);
    if (factor > 1) {
      estimate.factor = std::max(estimate.factor, factor);
      estimate.known = Known::outside;
      require(factor, fmt::format("{} over {} ranks of a node", profile::name_of(op), at.per_node),
              at.nodes == 1 ? "node_collectives" : "network_collectives");
    } else if (estimate.known == Known::entry) {
      estimate.known = Known::between;
    }
  }
  return estimate;
}

Estimate Times::collective(Collective op, const Placement& at, std::uint64_t bytes) const {
  Estimate found = on_entries(op, at, bytes);
  if (found.known == Known::rule && op == Collective::all_reduce) {  // the two halves of a ring's all-reduce
    const Estimate first = on_entries(Collective::reduce_scatter, at, bytes);
    const Estimate second = on_entries(Collective::all_gather, at, bytes);
    if (first.known != Known::rule && second.known != Known::rule)
      found = {first.seconds + second.seconds, std::max({first.known, second.known, Known::between}),
               std::max(first.factor, second.factor)};
  }
  if (found.known == Known::rule) {
    found.seconds = ring_seconds(op, at, bytes);
    return found;
  }
  // The entries hold both latency and bandwidth: what is uncertain of a large one is the bandwidth.
  found.seconds /= constants_.bandwidth;
  return found;
}

}  // namespace shard8::machine
