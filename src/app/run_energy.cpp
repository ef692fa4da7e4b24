// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "app/run_energy.hpp"

#include <array>
#include <utility>
#include <vector>

#include "app/device.hpp"
#include "app/run_report.hpp"
#include "profile/energy_counter.hpp"

namespace shard8::app {

RunEnergy::RunEnergy(const comm::Communicator& world, const comm::Node& node) {
  profile::EnergySources sources;
  if (const auto device = device_names()) sources.join(profile::nvml_counter(*device));
  sources.join(profile::rapl_counters());
  const std::string identity = comm::node_identity();
  const profile::EnergyPlace place{
      .rank = world.rank(), .node = identity.empty() ? node.host : identity, .host = node.host};
  directory_ = profile::share_counters(sources, place, gather_over(world));
  meter_.emplace(std::move(sources.counters));
}

profile::EnergyCounts RunEnergy::counts() {
  return {.directory = directory_, .counted = meter_->counted(), .thread_cpu_s = meter_->thread_cpu_s()};
}

void RunEnergy::pause(const comm::Communicator& world) {
  meter_->pause();
  const auto joules = since_last(world);
  before_pause_ = joules && before_pause_ ? std::optional(*before_pause_ + *joules) : std::nullopt;
}

void RunEnergy::resume(const comm::Communicator& world) {
  meter_->resume();
  since_last(world);
}

std::optional<double> RunEnergy::window(const comm::Communicator& world) {
  const auto joules = since_last(world), before = std::exchange(before_pause_, 0);
  return joules && before ? std::optional(*joules + *before) : std::nullopt;
}

RunEnergy::Window RunEnergy::step_over(const comm::Communicator& world, bool logged) {
  ++steps_;
  if (!logged) return {};
  return {window(world), std::exchange(steps_, 0)};
}

std::optional<double> RunEnergy::since_last(const comm::Communicator& world) {
  if (directory_.complete.empty()) return std::nullopt;  // the same on all ranks
  const std::optional<double> mine = meter_->joules(directory_.complete);
  const std::array<double, 2> values{mine.value_or(0), mine ? 0.0 : 1.0};
  const std::vector<profile::OverRanks> all = world.over_ranks(values);
  if (all[1].max > 0) joules_.reset();
  if (all[1].max > 0) return std::nullopt;
  const std::optional<double> before = std::exchange(joules_, all[0].sum);
  if (!before) return std::nullopt;
  return all[0].sum - *before;
}

}  // namespace shard8::app
