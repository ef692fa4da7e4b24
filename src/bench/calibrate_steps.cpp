// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "bench/calibrate.hpp"
#include "comm/agree.hpp"
#include "comm/node.hpp"
#include "deck/choices.hpp"
#include "deck/device.hpp"
#include "deck/load.hpp"
#include "profile/spread.hpp"
#include "train/setup.hpp"
#include "train/stopping.hpp"

namespace shard8::bench {
namespace {

using PlainJson = nlohmann::json;
using Clock = std::chrono::steady_clock;

/// A number that rank 0 decides.
std::int64_t decided_by_root(const comm::Communicator& world, std::int64_t mine) {
  std::string text = std::to_string(mine);
  world.broadcast(text, 0);
  return std::stoll(text);
}

/// Nodes, and ranks on each node, of every group of the mesh by name; 0 ranks where nodes have different numbers.
std::map<std::string, std::array<int, 2>> shapes_of(const comm::Mesh& mesh) {
  std::map<std::string, std::array<int, 2>> shapes;
  const auto add = [&](const comm::Communicator& group) {
    if (group.size() == 1) return;
    const comm::Placement placement = group.placement();
    std::vector<int> ranks(static_cast<std::size_t>(placement.nodes()));
    for (const int node : placement.node_of) ++ranks[static_cast<std::size_t>(node)];
    const bool even = std::all_of(ranks.begin(), ranks.end(), [&](int r) { return r == ranks[0]; });
    shapes[group.name()] = even ? std::array{placement.nodes(), ranks[0]} : std::array{0, 0};
  };
  add(mesh.world);
  for (const auto& [axes, group] : mesh.groups) add(group);
  return shapes;
}

std::string text_of(const RankTimes& times) {
  PlainJson work = PlainJson::array(), collectives = PlainJson::array();
  for (const auto& [key, calls] : times.work) {
    PlainJson rows = PlainJson::array();
    // Evenly over all calls, where there are more than are kept.
    const std::size_t kept = std::min(calls.size(), DeckTimes::kMostCalls);
    for (std::size_t i = 0; i < kept; ++i) {
      const TracedCall& c = calls[i * calls.size() / kept];
      rows.push_back({c.seconds, c.in_flight.share, c.held});
    }
    work.push_back({static_cast<int>(key.load), key.kernel, key.numbers, rows});
  }
  for (const TracedCollective& c : times.collectives)
    collectives.push_back(
        {static_cast<int>(c.op), c.nodes, c.ranks, c.bytes, c.seconds, c.shared, c.link_s, c.link_shared});
  return PlainJson{{"work", work},
                   {"collectives", collectives},
                   {"computed", times.computed_s},
                   {"besides", times.besides_s},
                   {"total", times.total_s},
                   {"issue", times.issue_s},
                   {"left_out", times.left_out}}
      .dump();
}

RankTimes times_from(const std::string& text) {
  const PlainJson json = PlainJson::parse(text);
  RankTimes times;
  for (const PlainJson& row : json["work"]) {
    WorkKey key{static_cast<machine::Load>(row[0].get<int>()), row[1].get<std::string>(),
                row[2].get<std::array<std::int64_t, 12>>()};
    std::vector<TracedCall>& calls = times.work[key];
    for (const PlainJson& c : row[3]) calls.push_back({c[0], {.share = c[1]}, c[2]});
  }
  for (const PlainJson& c : json["collectives"])
    times.collectives.push_back({.op = static_cast<profile::Collective>(c[0].get<int>()),
                                 .nodes = c[1],
                                 .ranks = c[2],
                                 .bytes = c[3],
                                 .seconds = c[4],
                                 .shared = c[5],
                                 .link_s = c[6],
                                 .link_shared = c[7]});
  json["computed"].get_to(times.computed_s);
  json["besides"].get_to(times.besides_s);
  json["total"].get_to(times.total_s);
  json["issue"].get_to(times.issue_s);
  json["left_out"].get_to(times.left_out);
  return times;
}

/// Ends the tracing of a timer and a log, also when a step fails.
class Tracing {
 public:
  Tracing(train::Assembly& assembly, profile::CollectiveLog& log, profile::TraceRecorder& recorder)
      : assembly_(assembly), log_(log) {
    assembly_.timer().set_trace(&recorder);
    log_.set_trace(&recorder);
    set_origin();
  }
  Tracing(const Tracing&) = delete;
  Tracing& operator=(const Tracing&) = delete;
  ~Tracing() {
    assembly_.timer().set_trace(nullptr);
    log_.set_trace(nullptr);
  }
  void set_origin() {
    assembly_.timer().set_trace_origin();
    assembly_.mesh().world.set_trace_origin();
  }

 private:
  train::Assembly& assembly_;
  profile::CollectiveLog& log_;
};

}  // namespace

deck::Config calibration_deck(deck::Config config) {
  config = deck::without_files(std::move(config));
  config.checkpoint.dir.clear();
  config.checkpoint.every = 0;
  config.run.stop_after = 0;
  config.run.steps = std::int64_t{1} << 40;  // every step gathers for a next one
  return config;
}

std::optional<std::string> short_warmup(std::span<const DeckTimes> decks, double wanted_s, double minutes) {
  const DeckTimes* shortest = nullptr;
  int few = 0;
  for (const DeckTimes& deck : decks) {
    if (deck.warmup_s >= wanted_s) continue;
    ++few;
    if (shortest == nullptr || deck.warmup_s < shortest->warmup_s) shortest = &deck;
  }
  if (few == 0) return std::nullopt;
  return fmt::format(
      "{} of {} trained for less than {:g} s before steps were timed ({}: {:.1f} s in {}): devices slow down "
      "meanwhile. Give more than --minutes {:g}, or fewer decks",
      few, base::count(static_cast<std::int64_t>(decks.size()), "deck was", "decks were"), wanted_s, shortest->deck,
      shortest->warmup_s, base::count(shortest->warmup_steps, "step", "steps"), minutes);
}

DeckTimes time_steps(train::Assembly& assembly, profile::CollectiveLog& log, const std::string& name,
                     const StepBudget& budget) {
  const comm::Communicator& world = assembly.mesh().world;
  const bool on_device = world.device() != nullptr || deck::on_device(assembly.setup().config.mesh);
  const auto groups = shapes_of(assembly.mesh());
  operation::Operations step;
  comm::agree(world, [&] { step = train::record_step(assembly.setup()); });

  const auto begin = Clock::now();
  std::int64_t done = 0;
  const auto train_to = [&](std::int64_t end) {
    train::train(assembly.trainer(), {done, end}, {});
    done = end;
  };
  double step_s = 0;  // of the last step of the warm-up
  for (std::int64_t more = 1; more != 0;) {
    const auto before = Clock::now();
    train_to(done + 1);
    step_s = seconds_since(before);
    const bool stop =
        done >= 2 && (seconds_since(begin) >= budget.warmup_s || seconds_since(begin) + 4 * step_s >= budget.seconds);
    more = decided_by_root(world, stop ? 0 : 1);
  }
  const double warmup_s = seconds_since(begin);
  const double left = budget.seconds - warmup_s;
  const auto fitting = static_cast<std::int64_t>(std::min(left / std::max(step_s, 1e-9), 1e6)) - 1;
  const std::int64_t traced =
      decided_by_root(world, std::clamp<std::int64_t>(fitting, 3, std::max<std::int64_t>(budget.most_traced, 3)));

  DeckTimes times{.deck = name, .ranks = {}, .warmup_steps = done, .warmup_s = warmup_s};
  // Calls of the step before the first traced one are traced as well.
  profile::TraceRecorder recorder({{done + 1, done + traced}}, done);
  {
    Tracing tracing(assembly, log, recorder);
    train_to(done + 1);
    tracing.set_origin();
    train_to(done + traced);
    assembly.timer().collect_timings();
    assembly.trainer().settle();
    world.record_device_calls();
  }
  RankTimes mine;
  comm::agree(world, [&] {
    mine = times_of(recorder, step, on_device, groups, assembly.setup().dims.experts.on());
    if (mine.computed_s.empty())
      base::fail(base::ExitCode::failed,
                 "calibrate: {}: none of {} traced steps has the parts of the {} operations that were recorded, so "
                 "their times are not known; report it with the deck",
                 name, traced, step.list.size());
  });
  for (const std::string& text : world.gather(text_of(mine), 0)) times.ranks.push_back(times_from(text));
  return times;
}

// The factors by which calls take longer while collectives run.

namespace {

using machine::Load;

/// How many calls had one load in flight for some time, and no other.
std::int64_t calls_beside(const std::vector<SharedCall>& calls, std::size_t load) {
  return std::count_if(calls.begin(), calls.end(),
                       [load](const SharedCall& c) { return c.in_flight.share[std::size_t{1} << load] >= kAlone; });
}

/// The sum of the squares of what calls took less what they should take.
double squares(const std::vector<SharedCall>& calls, const Factors& factors) {
  double sum = 0;
  for (const SharedCall& c : calls) {
    const double error = c.seconds - c.alone_s * c.seconds / c.without(factors);
    sum += error * error;
  }
  return sum;
}

/// The step by Gauss and Newton from `factors`, in the logarithms of the fitted loads' factors: the solution of J'J
/// step = J' error, where t = t0 / D has the derivative t0 / D^2 * (the part of D while the load is in flight).
Factors step_from(const std::vector<SharedCall>& calls, const Factors& factors,
                  const std::vector<std::size_t>& fitted) {
  const std::size_t n = fitted.size();
  std::array<std::array<double, kCollectiveLoads + 1>, kCollectiveLoads> a{};
  for (const SharedCall& c : calls) {
    const double rate = c.without(factors) / c.seconds, expected = c.alone_s / rate;
    std::array<double, kCollectiveLoads> slope{};
    for (std::size_t i = 0; i < n; ++i) {
      Factors stopped = factors;
      stopped[fitted[i]] = std::numeric_limits<double>::infinity();
      slope[i] = expected / rate * (rate - c.without(stopped) / c.seconds);
    }
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) a[i][j] += slope[i] * slope[j];
      a[i][n] += slope[i] * (c.seconds - expected);
    }
  }
  for (std::size_t i = 0; i < n; ++i) a[i][i] *= 1 + 1e-12;  // loads that are in flight together alone
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t r = 0; r < n; ++r) {
      if (r == i || !(a[i][i] > 0)) continue;
      const double f = a[r][i] / a[i][i];
      for (std::size_t k = i; k <= n; ++k) a[r][k] -= f * a[i][k];
    }
  Factors step{};
  for (std::size_t i = 0; i < n; ++i) step[fitted[i]] = a[i][i] > 0 ? a[i][n] / a[i][i] : 0;
  return step;
}

/// The factors in [0.25, 20] with the least squares(). 1 for loads with less than kEnoughBeside calls.
Factors best_factors(const std::vector<SharedCall>& calls) {
  std::vector<std::size_t> fitted;
  for (std::size_t load = 0; load < kCollectiveLoads; ++load)
    if (calls_beside(calls, load) >= kEnoughBeside) fitted.push_back(load);
  Factors factors{1, 1, 1};
  double least = squares(calls, factors);
  for (int round = 0; round < 50; ++round) {
    const Factors step = step_from(calls, factors, fitted);
    Factors next = factors;
    double at_next = least, part = 1;
    for (; part > 1e-6; part /= 2) {  // less of a step that overshoots
      for (const std::size_t load : fitted)
        next[load] = std::clamp(factors[load] * std::exp(std::clamp(part * step[load], -1.0, 1.0)), 0.25, 20.0);
      at_next = squares(calls, next);
      if (at_next < least) break;
    }
    if (!(at_next < least)) break;
    factors = next;
    least = at_next;
  }
  return factors;
}

}  // namespace

InFlight InFlight::of(Load load, double share) {
  InFlight of{.share = {1 - share}};
  of.share[set_of(load)] = share;
  return of;
}

double SharedCall::without(const Factors& factors) const {
  double alone = 0;
  for (std::size_t set = 0; set < in_flight.share.size(); ++set) {
    double part = in_flight.share[set];
    for (std::size_t load = 0; load < factors.size(); ++load)
      if ((set >> load & 1U) != 0) part /= factors[load];
    alone += part;
  }
  return seconds * alone;
}

Factors factors_of(const Slowdowns& slowdowns) {
  Factors factors{};
  for (std::size_t load = 0; load < factors.size(); ++load)
    factors[load] = slowdowns[load] ? slowdowns[load]->factor : 1;
  return factors;
}

Slowdowns fit_slowdowns(std::vector<SharedCall> calls, double farthest) {
  // A thread that loses its core, or a rank that came late, takes many times as long.
  Factors factors{1, 1, 1};
  for (int pass = 0; pass < 4 && !calls.empty(); ++pass) {
    factors = best_factors(calls);
    const auto distance = [&](const SharedCall& c) { return std::abs(c.without(factors) / c.alone_s - 1); };
    std::vector<double> distances;
    for (const SharedCall& c : calls) distances.push_back(distance(c));
    const double most = std::max(farthest * profile::percentile(distances, 50), 1e-4);
    if (pass < 3) std::erase_if(calls, [&](const SharedCall& c) { return distance(c) > most; });
  }
  Slowdowns slowdowns;
  for (std::size_t load = 0; load < kCollectiveLoads; ++load) {
    const std::int64_t count = calls_beside(calls, load);
    if (count >= kEnoughBeside && factors[load] >= 0.5 && factors[load] <= 10) slowdowns[load] = {factors[load], count};
  }
  return slowdowns;
}

}  // namespace shard8::bench
