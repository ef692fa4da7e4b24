// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/text.hpp"
#include "bench/calibrate.hpp"
#include "bench/calibrate_import.hpp"
#include "profile/spread.hpp"

namespace shard8::bench {
namespace {

using machine::CollectiveTime;
using machine::Load;
using profile::Collective;

/// A fit y = Σ x·c of relative errors: rows are divided by y. Empty where the rows do not say all c.
std::vector<double> least_squares(const std::vector<std::vector<double>>& x, const std::vector<double>& y) {
  const std::size_t n = x.front().size();
  std::vector<std::vector<double>> a(n, std::vector<double>(n + 1));
  for (std::size_t r = 0; r < x.size(); ++r)
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) a[i][j] += x[r][i] * x[r][j] / (y[r] * y[r]);
      a[i][n] += x[r][i] / y[r];
    }
  for (std::size_t i = 0; i < n; ++i) {
    std::size_t pivot = i;
    for (std::size_t r = i; r < n; ++r)
      if (std::abs(a[r][i]) > std::abs(a[pivot][i])) pivot = r;
    std::swap(a[i], a[pivot]);
    if (!(std::abs(a[i][i]) > 0)) return {};
    for (std::size_t r = 0; r < n; ++r) {
      if (r == i) continue;
      const double f = a[r][i] / a[i][i];
      for (std::size_t c = i; c <= n; ++c) a[r][c] -= f * a[i][c];
    }
  }
  std::vector<double> c(n);
  for (std::size_t i = 0; i < n; ++i) c[i] = a[i][n] / a[i][i];
  return c;
}

/// node.bandwidth and node.latency, of the largest group in the node.
void add_link(machine::Machine& to, int source) {
  int ranks = 0;
  for (const CollectiveTime& row : to.collectives)
    if (row.nodes == 1 && row.op == Collective::all_gather && row.source == source) ranks = std::max(ranks, row.ranks);
  if (ranks < 2) return;
  double latency = 0, bandwidth = 0;
  for (const CollectiveTime& row : to.collectives) {
    if (row.nodes != 1 || row.op != Collective::all_gather || row.ranks != ranks || row.source != source) continue;
    latency = latency == 0 ? row.seconds : std::min(latency, row.seconds);
    const double sent = static_cast<double>(row.bytes) / ranks * (ranks - 1);
    bandwidth = std::max(bandwidth, sent / row.seconds);
  }
  to.link_latency = {latency, source};
  to.link_bandwidth = {bandwidth, source};
}

/// The network's figures from all-gathers of several nodes.
void add_network(machine::Machine& to, int rails, int source, std::vector<std::string>& remarks) {
  std::vector<std::vector<double>> x;
  std::vector<double> y;
  bool several = false;  // numbers of ranks in a ring
  int ring = 0;
  for (const CollectiveTime& row : to.collectives) {
    if (row.nodes < 2 || row.op != Collective::all_gather || row.source != source) continue;
    const int all = row.nodes * row.ranks;
    several = several || (ring != 0 && ring != all);
    ring = all;
    // What a node gets from others comes over as many of its ports as it has ranks in the group.
    const double ports = std::min(rails, row.ranks);
    const double received = static_cast<double>(row.bytes) * (row.nodes - 1) / row.nodes / ports;
    x.push_back({received, 1.0, static_cast<double>(all - 2)});
    y.push_back(row.seconds);
  }
  if (x.empty()) return;
  if (!several)
    for (auto& row : x) row.pop_back();
  const std::vector<double> c = least_squares(x, y);
  if (c.empty() || !(c[0] > 0)) {
    remarks.emplace_back("network.bandwidth and latency do not follow from the collectives over nodes; give --base");
    return;
  }
  to.rails = {static_cast<double>(rails), source};
  to.rail_bandwidth = {1 / c[0], source};
  to.latency = {c[1], source};
  if (!(c[1] > 0)) {  // small messages cost next to nothing, or less than the line through the large ones says
    to.latency.value = *std::min_element(y.begin(), y.end());
    remarks.emplace_back(
        "network.latency does not follow from the collectives over nodes: it is the shortest of their times, an upper "
        "bound");
  }
  if (several) to.latency_rank = {std::max(c[2], 0.0), source};
}

/// Seconds of a collective of so many bytes alone, between the rows of its kind; 0 outside of their sizes.
double seconds_alone(const machine::Machine& m, const TracedCollective& c) {
  const CollectiveTime* below = nullptr;
  const CollectiveTime* above = nullptr;
  for (const CollectiveTime& row : m.collectives) {
    if (row.op != c.op || row.nodes != c.nodes || row.ranks != c.ranks) continue;
    if (row.bytes <= c.bytes && (below == nullptr || row.bytes > below->bytes)) below = &row;
    if (row.bytes >= c.bytes && (above == nullptr || row.bytes < above->bytes)) above = &row;
  }
  if (below == nullptr || above == nullptr) return 0;
  if (below->bytes == above->bytes) return below->seconds;
  const auto log = [](std::uint64_t bytes) { return std::log(static_cast<double>(bytes)); };
  const double f = (log(c.bytes) - log(below->bytes)) / (log(above->bytes) - log(below->bytes));
  return std::exp(std::log(below->seconds) * (1 - f) + std::log(above->seconds) * f);
}

/// The collectives of a deck's steps. A rank that comes early waits for the others in the call, so a call takes as long
/// as on the rank where it was shortest, if all ranks issued the same calls.
std::vector<TracedCollective> calls_of(const DeckTimes& deck) {
  std::vector<TracedCollective> calls = deck.ranks.front().collectives;
  for (const RankTimes& rank : deck.ranks) {
    if (rank.collectives.size() != calls.size()) return deck.ranks.front().collectives;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const TracedCollective& c = rank.collectives[i];
      const bool same = c.op == calls[i].op && c.bytes == calls[i].bytes && c.ranks == calls[i].ranks;
      if (same && c.seconds < calls[i].seconds) calls[i] = c;
    }
  }
  return calls;
}

/// Rows that ran alone in steps, of sizes outside of those that were timed alone: in a step a call also waits for ranks
/// that come later.
std::vector<CollectiveTime> rows_of_steps(const machine::Machine& m, std::span<const DeckTimes> decks, int source) {
  std::map<std::tuple<int, Collective, int, std::uint64_t>, std::vector<double>> seconds;
  for (const DeckTimes& deck : decks)
    for (const TracedCollective& c : calls_of(deck))
      if (c.shared == 0 && c.link_s > 0.999 * c.seconds && c.nodes > 0 && c.bytes > 0 && !profile::bytes_vary(c.op) &&
          seconds_alone(m, c) == 0)
        seconds[{c.nodes, c.op, c.ranks, c.bytes}].push_back(c.seconds);
  std::vector<CollectiveTime> rows;
  for (const auto& [key, times] : seconds) {
    if (times.size() < 3) continue;
    CollectiveTime row;
    std::tie(row.nodes, row.op, row.ranks, row.bytes) = key;
    row.seconds = profile::percentile(times, 50);
    row.source = source;
    rows.push_back(row);
  }
  return rows;
}

/// The factor by which collectives of one load take longer while computation runs. There is one factor for all kinds of
/// computation: while a collective of a step runs, a mix of them runs. `beside`: how many collectives ran during
/// computation is added to it.
std::optional<Slowdown> slowdown_of_collectives(const machine::Machine& m, std::span<const DeckTimes> decks, Load load,
                                                std::size_t& beside) {
  std::vector<SharedCall> calls;  // what runs at the same time counts as one load
  for (const DeckTimes& deck : decks)
    for (const TracedCollective& c : calls_of(deck)) {
      if (m.load_of(c.op, c.nodes) != load) continue;
      const double t0 = c.nodes == 0 || c.link_shared < 0.1 ? 0 : seconds_alone(m, c);
      if (t0 > 0) calls.push_back({t0, c.link_s, InFlight::of(Load::collective, c.link_shared)});
    }
  beside += calls.size();
  return fit_slowdowns(std::move(calls))[index_of(Load::collective)];
}

/// One row for each key: the median. If two rows contradict each other, the smaller collective is the slow one, and its
/// row is left out.
int without_contradictions(std::vector<CollectiveTime>& rows) {
  std::map<std::tuple<int, Collective, int, std::uint64_t>, std::vector<double>> seconds;
  for (const CollectiveTime& r : rows) seconds[{r.nodes, r.op, r.ranks, r.bytes}].push_back(r.seconds);
  const int source = rows.empty() ? 0 : rows.front().source;
  std::vector<CollectiveTime> all, kept;
  for (const auto& [key, times] : seconds) {
    CollectiveTime row;
    std::tie(row.nodes, row.op, row.ranks, row.bytes) = key;
    row.seconds = profile::percentile(times, 50);
    row.source = source;
    all.push_back(row);
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    bool slow = false;  // a larger one takes less than half its time
    for (std::size_t j = i + 1; j < all.size(); ++j) slow = slow || contradict(all[i], all[j]);
    if (!slow) kept.push_back(all[i]);
  }
  rows = kept;
  return static_cast<int>(all.size() - kept.size());
}

}  // namespace

std::vector<std::string> add_collectives(machine::Machine& to, std::vector<CollectiveTime> collectives,
                                         std::span<const DeckTimes> decks, int rails, int source) {
  std::vector<std::string> remarks;
  for (CollectiveTime& row : collectives) row.source = source;
  int left_out = without_contradictions(collectives);
  to.collectives.insert(to.collectives.end(), collectives.begin(), collectives.end());
  add_link(to, source);
  add_network(to, rails, source, remarks);
  for (const Load load : {Load::collective, Load::copies, Load::sums}) {
    std::size_t beside = 0;
    const auto slowdown = slowdown_of_collectives(to, decks, load, beside);
    if (!slowdown && static_cast<std::int64_t>(beside) >= kEnoughBeside)
      remarks.push_back(fmt::format(
          "{} that count as {} took less than half or more than ten times their time alone beside computation: the "
          "factor is left out",
          base::count(static_cast<std::int64_t>(beside), "collective", "collectives"), name_of(load)));
    if (!slowdown) continue;
    for (const Load by : {Load::product, Load::attention, Load::kernel})
      to.slowed[static_cast<std::size_t>(load)][static_cast<std::size_t>(by)] = {slowdown->factor, source};
  }
  left_out += add_collective_rows(to.collectives, rows_of_steps(to, decks, source));
  if (left_out > 0)
    remarks.push_back(fmt::format("{} left out: a larger one takes less than half the time",
                                  base::count(left_out, "collective was", "collectives were")));
  return remarks;
}

}  // namespace shard8::bench
