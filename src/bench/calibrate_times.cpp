// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "base/arithmetic.hpp"
#include "base/text.hpp"
#include "bench/calibrate.hpp"
#include "profile/spread.hpp"

namespace shard8::bench {
namespace {

using machine::Load;

/// A key's time is that of its calls alone if there are so many.
constexpr std::size_t kEnoughAlone = 3;

double median(std::vector<double> values) { return profile::percentile(std::move(values), 50); }

/// The share of calls, of the fastest and of the slowest, that a mean leaves out. On hosts every step has calls that
/// the system interrupts, whose time belongs to the step: only what happens once in many steps is left out.
constexpr double left_out_of(bool on_device) { return on_device ? 0.1 : 0.01; }

/// The mean without this share of the fastest and of the slowest, to six digits: sums of it are those of steps, but for
/// what disturbed a few of them.
double usual_mean(std::vector<double> values, double share = 0.1) {
  std::sort(values.begin(), values.end());
  const auto left_out = static_cast<std::size_t>(share * static_cast<double>(values.size()));
  const double sum = std::accumulate(values.begin() + static_cast<std::ptrdiff_t>(left_out),
                                     values.end() - static_cast<std::ptrdiff_t>(left_out), 0.0);
  return std::stod(fmt::format("{:.6g}", sum / static_cast<double>(values.size() - 2 * left_out)));
}

using Calls = std::map<WorkKey, std::vector<TracedCall>>;

/// The calls of all ranks and decks. If a key has calls whose ends are the device's own, the other calls of the key are
/// left out.
Calls all_calls(std::span<const DeckTimes> decks) {
  Calls all;
  for (const DeckTimes& deck : decks)
    for (const RankTimes& rank : deck.ranks)
      for (const auto& [key, calls] : rank.work) all[key].insert(all[key].end(), calls.begin(), calls.end());
  for (auto& [key, calls] : all) {
    const auto own = std::stable_partition(calls.begin(), calls.end(), [](const TracedCall& c) { return !c.held; });
    if (own != calls.begin()) calls.erase(own, calls.end());
  }
  return all;
}

/// What a traced call had in flight. Without copy engines all collectives are one load.
InFlight loads_of(const InFlight& traced, bool copies) {
  return copies ? traced : InFlight::of(Load::collective, traced.any());
}

std::vector<double> seconds_alone(const std::vector<TracedCall>& calls) {
  std::vector<double> alone;
  for (const TracedCall& c : calls)
    if (c.in_flight.any() < kAlone) alone.push_back(c.seconds);
  return alone;
}

Slowdowns slowdowns_of(const Calls& all, Load load, bool on_device, bool copies) {
  std::vector<SharedCall> shared;
  for (const auto& [key, calls] : all) {
    if (key.load != load || calls.front().held) continue;
    const std::vector<double> alone = seconds_alone(calls);
    if (alone.size() < kEnoughAlone) continue;
    const double t0 = on_device ? median(alone) : usual_mean(alone, left_out_of(on_device));
    for (const TracedCall& c : calls)
      if (c.in_flight.any() >= kAlone) shared.push_back({t0, c.seconds, loads_of(c.in_flight, copies)});
  }
  return fit_slowdowns(std::move(shared), on_device ? 3 : 30);
}

double standard_deviation(const std::vector<double>& values) {
  const double n = static_cast<double>(values.size());
  const double mean = base::mean_of(values);
  double sum = 0;
  for (const double v : values) sum += (v - mean) * (v - mean);
  return std::sqrt(sum / (n - 1));
}

/// As standard_deviation() for values that are spread like a normal distribution, whatever a few of them are: a step in
/// which a thread lost its core takes many times as long.
double robust_deviation(const std::vector<double>& values) {
  if (values.size() < 5) return standard_deviation(values);
  return (profile::percentile(values, 84.13) - profile::percentile(values, 15.87)) / 2;
}

/// The seconds by which each rank comes late to the collectives of a deck that no rank overlaps with computation: a
/// call takes the longer, the earlier a rank comes. A rank that computes more slowly than others comes late to the same
/// call in every step, which is spread.ranks: the rank's mean over the steps is taken off, call by call. Empty if
/// the deck's ranks are not one group on one node.
std::vector<double> lateness(const DeckTimes& deck) {
  const std::size_t ranks = deck.ranks.size(), calls = deck.ranks.front().collectives.size();
  for (const RankTimes& rank : deck.ranks)
    if (ranks < 2 || rank.collectives.size() != calls) return {};
  const std::size_t steps = deck.ranks.front().computed_s.size();
  const bool alike = steps > 1 && calls % steps == 0;  // the steps have the same calls
  const std::size_t of_step = alike ? calls / steps : calls;
  std::vector<double> all;
  std::vector<std::vector<double>> late(ranks);  // of a call of a step, or of all calls if steps are not alike
  const auto take = [&] {
    for (std::vector<double>& of_rank : late) {
      if (of_rank.size() > 1) {
        const double n = static_cast<double>(of_rank.size()), mean = usual_mean(of_rank);
        for (const double l : of_rank) all.push_back((l - mean) * std::sqrt(n / (n - 1)));  // about its own mean
      }
      of_rank.clear();
    }
  };
  for (std::size_t call = 0; call < of_step; ++call) {
    for (std::size_t i = call; i < calls; i += of_step) {
      const TracedCollective& first = deck.ranks.front().collectives[i];
      double sum = 0;
      bool blocking = first.nodes == 1 && first.ranks == static_cast<int>(ranks);
      for (const RankTimes& rank : deck.ranks) {
        const TracedCollective& c = rank.collectives[i];
        blocking = blocking && c.op == first.op && c.bytes == first.bytes && c.ranks == first.ranks && c.shared == 0;
        sum += c.seconds;
      }
      for (std::size_t r = 0; r < ranks && blocking; ++r)
        late[r].push_back(sum / static_cast<double>(ranks) - deck.ranks[r].collectives[i].seconds);
    }
    if (alike) take();
  }
  take();
  return all.size() < 10 * ranks ? std::vector<double>{} : all;
}

/// spread.calls: over all decks.
void add_spread_of_calls(machine::Machine& to, std::span<const DeckTimes> decks, int source) {
  double squares = 0;
  std::size_t count = 0;
  for (const DeckTimes& deck : decks) {
    std::vector<double> late = lateness(deck);
    if (late.empty()) continue;
    const double deviation = robust_deviation(late), ranks = static_cast<double>(deck.ranks.size());
    squares += static_cast<double>(late.size()) * deviation * deviation * ranks / (ranks - 1);  // about their mean
    count += late.size();
  }
  if (count > 0) to.spread_calls = {std::sqrt(squares / static_cast<double>(count)), source};
}

/// spread.ranks and spread.steps: the median over the decks.
void add_spread(machine::Machine& to, std::span<const DeckTimes> decks, int source, std::vector<std::string>& remarks) {
  std::vector<double> ranks, steps;
  for (const DeckTimes& deck : decks) {
    std::vector<double> means, deviations;
    for (const RankTimes& rank : deck.ranks) {
      means.push_back(base::mean_of(rank.computed_s));
      if (rank.computed_s.size() > 1) deviations.push_back(robust_deviation(rank.computed_s) / median(rank.computed_s));
    }
    if (means.size() > 1) ranks.push_back(standard_deviation(means) / base::mean_of(means));
    if (!deviations.empty()) steps.push_back(base::mean_of(deviations));
  }
  // A deviation above the mean is no spread of equal work, and a machine file takes no such spread above 1.
  const auto set = [&](machine::Figure& figure, std::vector<double> values, const char* of) {
    if (values.empty()) return;
    const double value = usual_mean(std::move(values));
    if (value <= 1)
      figure = {value, source, 0};
    else
      remarks.push_back(
          fmt::format("computation differs by {:.0f} % from {}: left out; other programs run here", 100 * value, of));
  };
  set(to.spread_ranks, ranks, "rank to rank");
  set(to.spread_steps, steps, "step to step");
  add_spread_of_calls(to, decks, source);
}

void add_issue(machine::Machine& to, std::span<const DeckTimes> decks, bool on_device, int source) {
  std::array<std::vector<double>, 3> issue;
  std::vector<double> besides;
  for (const DeckTimes& deck : decks)
    for (const RankTimes& rank : deck.ranks) {
      for (std::size_t i = 0; i < issue.size(); ++i)
        issue[i].insert(issue[i].end(), rank.issue_s[i].begin(), rank.issue_s[i].end());
      besides.insert(besides.end(), rank.besides_s.begin(), rank.besides_s.end());
    }
  if (!besides.empty()) to.issue_step = {usual_mean(besides), source};
  if (!on_device) return;  // there the host's work is the operation
  const auto set = [&](machine::Figure& figure, Load load) {
    const auto& values = issue[static_cast<std::size_t>(load)];
    if (!values.empty()) figure = {usual_mean(values), source};
  };
  set(to.issue_product, Load::product);
  set(to.issue_attention, Load::attention);
  set(to.issue_kernel, Load::kernel);
}

/// Whether the device's memory or its products cannot be so fast.
bool impossible(const machine::Machine& m, const WorkKey& key, double seconds) {
  if (key.load == Load::kernel)
    return m.bandwidth.given() && seconds * m.bandwidth.value < static_cast<double>(key.numbers[0]);
  if (key.load != Load::product) return false;
  const operation::Product p = key.product();
  const machine::Figure& peak = m.peak_of(std::min(tensor::size_of(p.left.dtype), tensor::size_of(p.right.dtype)));
  return peak.given() && seconds * peak.value < p.flops();
}

/// `value` to five digits: more are noise.
double rounded(double value) { return std::stod(fmt::format("{:.4e}", value)); }

}  // namespace

void round_times(machine::Machine& m) {
  for (auto& row : m.products) row.seconds = rounded(row.seconds);
  for (auto& row : m.attention) row.seconds = rounded(row.seconds);
  for (auto& row : m.kernels) row.seconds = rounded(row.seconds);
  for (auto& row : m.collectives) row.seconds = rounded(row.seconds);
  for (machine::Figure* f : {&m.issue_product, &m.issue_attention, &m.issue_kernel, &m.issue_collective, &m.issue_step,
                             &m.link_latency, &m.latency, &m.latency_rank, &m.spread_calls})
    if (f->given()) f->value = rounded(f->value);
  for (machine::Figure* f : {&m.link_bandwidth, &m.rail_bandwidth})
    if (f->given()) f->value = rounded(f->value);
  for (machine::Figure* f : {&m.spread_ranks, &m.spread_steps})
    if (f->given()) f->value = rounded(f->value);
  for (auto& by : m.slowed)
    for (machine::Figure& f : by)
      if (f.given()) f.value = rounded(f.value);
}

Slowdowns slowdowns_of(std::span<const DeckTimes> decks, Load load, bool on_device, bool copies) {
  return slowdowns_of(all_calls(decks), load, on_device, copies);
}

std::vector<std::string> add_work(machine::Machine& to, std::span<const DeckTimes> decks, bool on_device, int source) {
  std::vector<std::string> remarks;
  const Calls all = all_calls(decks);
  std::array<Factors, 3> factors{};
  for (const Load load : {Load::product, Load::attention, Load::kernel}) {
    const Slowdowns slowdowns = slowdowns_of(all, load, on_device, to.copies_in_node);
    factors[static_cast<std::size_t>(load)] = factors_of(slowdowns);
    for (const Load by : {Load::collective, Load::copies, Load::sums})
      if (const auto& slowdown = slowdowns[index_of(by)])
        to.slowed[static_cast<std::size_t>(load)][static_cast<std::size_t>(by)] = {slowdown->factor, source};
  }
  std::int64_t held = 0, never_alone = 0, beside = 0;
  for (const auto& [key, calls] : all) {
    std::vector<double> seconds = seconds_alone(calls);
    const Factors& slow = factors[static_cast<std::size_t>(key.load)];
    if (seconds.size() < kEnoughAlone && seconds.size() < calls.size()) {
      never_alone += seconds.empty() ? 1 : 0;
      seconds.clear();
      for (const TracedCall& c : calls)
        seconds.push_back(SharedCall{0, c.seconds, loads_of(c.in_flight, to.copies_in_node)}.without(slow));
      if (impossible(to, key, usual_mean(seconds, left_out_of(on_device)))) {
        ++beside;
        seconds.clear();
        for (const TracedCall& c : calls) seconds.push_back(c.seconds);
      }
    }
    held += calls.front().held ? 1 : 0;
    machine::Timed time;
    time.seconds = usual_mean(seconds, left_out_of(on_device));
    time.source = source;
    if (key.load == Load::product)
      to.products.push_back({time, key.product()});
    else if (key.load == Load::attention)
      to.attention.push_back({time, key.attention()});
    else
      to.kernels.push_back({time, key.kernel, static_cast<std::uint64_t>(key.numbers[0])});
  }
  add_spread(to, decks, source, remarks);
  add_issue(to, decks, on_device, source);
  if (never_alone > 0)
    remarks.push_back(fmt::format(
        "{} of {} never ran without a collective in flight: their times are those beside one, less the slow-down",
        base::count(never_alone, "operation", "operations"), all.size()));
  if (beside > 0)
    remarks.push_back(fmt::format(
        "{} would be faster than the device without a collective in flight: their times are those beside one",
        base::count(beside, "operation", "operations")));
  if (held > 0)
    remarks.push_back(fmt::format(
        "the device waited for the host at {} of {}: their times are the host's, upper bounds; a larger deck has none",
        base::count(held, "operation", "operations"), all.size()));
  for (const DeckTimes& deck : decks) {
    std::int64_t left_out = 0;
    for (const RankTimes& rank : deck.ranks) left_out = std::max(left_out, rank.left_out);
    if (left_out > 0)
      remarks.push_back(fmt::format("{}: {} left out, whose parts are not those of the recorded operations", deck.deck,
                                    base::count(left_out, "traced step", "traced steps")));
  }
  return remarks;
}

}  // namespace shard8::bench
