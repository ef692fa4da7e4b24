// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "bench/calibrate.hpp"
#include "comm/agree.hpp"
#include "comm/node.hpp"
#include "deck/device.hpp"
#include "deck/without_files.hpp"
#include "train/loop.hpp"
#include "train/record.hpp"

namespace shard8::bench {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

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
  Json work = Json::array(), collectives = Json::array();
  for (const auto& [key, calls] : times.work) {
    Json rows = Json::array();
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
  return Json{{"work", work},
              {"collectives", collectives},
              {"computed", times.computed_s},
              {"besides", times.besides_s},
              {"total", times.total_s},
              {"issue", times.issue_s},
              {"left_out", times.left_out}}
      .dump();
}

RankTimes times_from(const std::string& text) {
  const Json json = Json::parse(text);
  RankTimes times;
  for (const Json& row : json["work"]) {
    WorkKey key{static_cast<machine::Load>(row[0].get<int>()), row[1].get<std::string>(),
                row[2].get<std::array<std::int64_t, 12>>()};
    std::vector<TracedCall>& calls = times.work[key];
    for (const Json& c : row[3]) calls.push_back({c[0], {.share = c[1]}, c[2]});
  }
  for (const Json& c : json["collectives"])
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
  // Of the step before the first traced one, calls are traced.
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

}  // namespace shard8::bench
