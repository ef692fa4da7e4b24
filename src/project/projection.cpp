// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "project/projection.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>

#include "train/setup.hpp"

namespace shard8::project {

namespace {

/// The sum of two simulated steps, the second one counted `times` times.
void add(Projection& to, const Projection& other, double times) {
  to.nominal_s += times * other.nominal_s;
  to.times.total += times * other.times.total;
  for (std::size_t p = 0; p < to.times.phase.size(); ++p) to.times.phase[p] += times * other.times.phase[p];
  for (std::size_t d = 0; d < to.times.part.size(); ++d)
    for (std::size_t p = 0; p < to.times.part[d].size(); ++p) to.times.part[d][p] += times * other.times.part[d][p];
  for (std::size_t e = 0; e < to.times.exchange.size(); ++e) to.times.exchange[e] += times * other.times.exchange[e];
  to.computing_s += times * other.computing_s;
  to.slowed_s += times * other.slowed_s;
  to.host_s += times * other.host_s;
  to.in_flight_s += times * other.in_flight_s;
  to.issue_s += times * other.issue_s;
  machine::add(to.not_given, other.not_given);
  for (std::size_t k = 0; k < to.known_s.size(); ++k) to.known_s[k] += times * other.known_s[k];
  for (const Uncertain& u : other.uncertain) {
    const auto same =
        std::find_if(to.uncertain.begin(), to.uncertain.end(), [&](const Uncertain& t) { return t.what == u.what; });
    if (same == to.uncertain.end()) continue;
    same->seconds += times * u.seconds;
    same->calls += static_cast<std::int64_t>(times) * u.calls;
  }
  for (const Traffic& t : other.traffic) {
    const auto same =
        std::find_if(to.traffic.begin(), to.traffic.end(), [&](const Traffic& o) { return o.key == t.key; });
    if (same == to.traffic.end()) continue;
    same->calls += times * t.calls;
    same->total_s += times * t.total_s;
    same->exposed_s += times * t.exposed_s;
  }
}

/// The step of so many micro-batches.
Projection simulated(train::Setup setup, std::int64_t micro_batches, const machine::Machine& machine,
                     const Settings& settings, const Case& of) {
  setup.layout.micro_batches = micro_batches;
  setup.dims.experts.worst = settings.worst_routing;
  machine::Constants constants = of.constants;
  constants.computation /= settings.efficiency;
  const machine::Times times(machine, constants, settings.most_factor);
  Projection p;
  if (const std::int64_t ranks = setup.config.mesh.ranks(); ranks > 1)
    p.slowest = 1 + of.spread *
                        std::hypot(times.value_of(machine.spread_ranks, 0), times.value_of(machine.spread_steps, 0)) *
                        expected_largest(ranks);
  TaskList list(setup, times, p.slowest, settings.structure != nullptr ? settings.structure->host_issue : 1, of.spread);
  const operation::Recorder::Sink sink = [&](const operation::Operation& o) { list.add(o); };
  list.set_ahead(settings.structure != nullptr ? record_step(*settings.structure, setup, {}, sink)
                                               : train::record_step(setup, {}, sink));
  const Simulated s = simulate(list.step(), slow_downs(machine, of.slow_downs));
  p.nominal_s = s.times.total;
  p.times = s.times;
  p.computing_s = s.computing_s;
  p.slowed_s = s.slowed_s;
  p.host_s = s.host_s;
  p.in_flight_s = s.in_flight_s;
  p.issue_s = list.step().issue_s;
  for (const Task& t : list.step().tasks) p.issue_s += t.issue_s;
  p.known_s = list.known_s();
  p.uncertain = list.uncertain();
  p.traffic = list.traffic(s);
  for (std::size_t slow = 0; slow < s.met.size(); ++slow)
    for (std::size_t by = 0; by < s.met[slow].size(); ++by)
      if (s.met[slow][by]) times.value_of(machine.slowed[slow][by], 1);  // as Machine::slowed_by(): here it is noted
  p.not_given = times.not_given();
  return p;
}

/// The simulated rank is the slowest one. A mean rank computes less, and waits for it where ranks meet: at reductions
/// of gradients, or without them at the exchanges of the tensor group.
void wait_for_the_slowest(Projection& p, const base::Extents& mesh) {
  constexpr profile::Part kComputing[] = {profile::Part::attention, profile::Part::gemm, profile::Part::elementwise};
  constexpr auto kComm = static_cast<std::size_t>(profile::Part::tensor_comm);
  const double waiting = 1 - 1 / p.slowest;
  const bool reduces = mesh.ranks(base::AxisSet::data) > 1;
  p.in_flight_s = std::min(p.nominal_s, p.in_flight_s + waiting * p.computing_s);  // a rank waits in a call
  p.computing_s *= 1 - waiting;
  profile::StepTimes& t = p.times;
  for (std::size_t pass = 0; pass < t.part.size(); ++pass) {
    const auto phase = static_cast<std::size_t>(pass == 0 ? profile::Phase::forward : profile::Phase::backward);
    double moved = 0;
    for (const profile::Part part : kComputing) {
      double& seconds = t.part[pass][static_cast<std::size_t>(part)];
      moved += waiting * seconds;
      seconds *= 1 - waiting;
    }
    if (reduces) {
      t.phase[phase] -= moved;
      t.phase[static_cast<std::size_t>(profile::Phase::reduce_wait)] += moved;
    } else {
      t.part[pass][kComm] += moved;
      t.exchange[profile::kExchanges] += moved;
    }
  }
}

Projection of_case(const train::Setup& setup, const machine::Machine& machine, const Settings& settings,
                   const Case& of) {
  constexpr std::int64_t kSimulated = 3;
  const std::int64_t all = setup.layout.micro_batches;
  if (all <= kSimulated) return simulated(setup, all, machine, settings, of);
  Projection p = simulated(setup, kSimulated, machine, settings, of);
  const Projection three = p, two = simulated(setup, kSimulated - 1, machine, settings, of);
  const auto more = static_cast<double>(all - kSimulated);
  add(p, three, more);
  add(p, two, -more);
  return p;
}

}  // namespace

Case low_case() { return {{0.97, 1.2, 0.5}, 0.5, 0.5}; }
Case nominal_case() { return {}; }
Case high_case() { return {{1.05, 0.8, 2}, 2, 2}; }

double Projection::exposed() const {
  const auto phase = [&](profile::Phase p) { return times.phase[static_cast<std::size_t>(p)]; };
  const auto comm = static_cast<std::size_t>(profile::Part::tensor_comm);
  return (phase(profile::Phase::gather_wait) + phase(profile::Phase::reduce_wait) + times.part[0][comm] +
          times.part[1][comm]) /
         times.total;
}

Projection project_nominal(const deck::Config& config, const machine::Machine& machine, const Settings& settings) {
  Projection p = of_case(train::Setup::make(config, 0, 1), machine, settings, nominal_case());
  if (p.slowest > 1) wait_for_the_slowest(p, config.mesh.extents());
  p.low_s = p.high_s = p.nominal_s;
  std::sort(p.uncertain.begin(), p.uncertain.end(), [](const Uncertain& a, const Uncertain& b) {
    return std::tie(b.seconds, a.what) < std::tie(a.seconds, b.what);
  });
  return p;
}

Projection project(const deck::Config& config, const machine::Machine& machine, const Settings& settings) {
  const train::Setup setup = train::Setup::make(config, 0, 1);
  Projection p = project_nominal(config, machine, settings);
  const Projection low = of_case(setup, machine, settings, low_case());
  const Projection high = of_case(setup, machine, settings, high_case());
  p.low_s = std::min(p.nominal_s, low.nominal_s);
  p.high_s = std::max(p.nominal_s, high.nominal_s);
  for (const Projection* other : {&low, &high}) machine::add(p.not_given, other->not_given);
  if (p.high_s > kMostSpread * p.low_s) {
    // Both sides give up the same share, on a logarithmic scale.
    p.narrowed = true;
    const double keep = std::log(kMostSpread) / std::log(p.high_s / p.low_s);
    p.low_s = p.nominal_s * std::pow(p.low_s / p.nominal_s, keep);
    p.high_s = p.nominal_s * std::pow(p.high_s / p.nominal_s, keep);
  }
  return p;
}

std::optional<WorstRouting> worst_routing(const deck::Config& config, const machine::Machine& machine,
                                          const Settings& settings) {
  const model::Dims dims = train::Setup::make(config, 0, 1).dims;
  if (dims.experts.ranks == 1 || dims.experts.routing == deck::MoeRouting::balanced) return std::nullopt;
  Settings worst = settings;
  worst.worst_routing = true;
  return WorstRouting{project_nominal(config, machine, worst).nominal_s, dims.experts.most_rounds(dims.tokens_local())};
}

double normal_quantile(double p) {
  double low = -10, high = 10;  // the distribution function rises from low to high
  for (int i = 0; i < 100; ++i) {
    const double middle = 0.5 * (low + high);
    (0.5 * std::erfc(-middle / std::numbers::sqrt2) < p ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

double expected_largest(std::int64_t n) {
  return n <= 1 ? 0 : normal_quantile((static_cast<double>(n) - 0.375) / (static_cast<double>(n) + 0.25));
}

}  // namespace shard8::project
