// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "project/costs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace shard8::project {
namespace {

std::string missing_text(const machine::Machine& machine) {
  return fmt::format("{} gives no device.watts: give it, and device.watts_idle", machine.path);
}

}  // namespace

std::optional<ProjectedEnergy> energy_of(const Projection& step, const machine::Machine& machine, double ranks) {
  if (!machine.watts.given() || step.nominal_s <= 0) return std::nullopt;
  ProjectedEnergy energy;
  energy.idle_given = machine.watts_idle.given();
  energy.busy = std::clamp(step.computing_s / step.nominal_s, 0.0, 1.0);
  const auto watts = [&](double idle) {
    return ranks * (energy.busy * machine.watts.value + (1 - energy.busy) * idle);
  };
  energy.watts = watts(energy.idle_given ? machine.watts_idle.value : machine.watts.value);
  energy.nominal_j = energy.watts * step.nominal_s;
  energy.low_j = watts(energy.idle_given ? machine.watts_idle.value : 0) * step.low_s;
  energy.high_j = energy.watts * step.high_s;
  return energy;
}

std::string energy_text(const std::optional<ProjectedEnergy>& energy, const machine::Machine& machine, double tokens) {
  if (!energy) return fmt::format("\nenergy: NOT PROJECTED: {}\n", missing_text(machine));
  return fmt::format(
      "\nprojected energy: {:.4g} J a step of all devices (low {:.4g}, high {:.4g}), {:.4g} J a token   mean: {:.1f} "
      "W: "
      "{:.4g} W for the {:.1f} % of a step in which a device computes, {}\n",
      energy->nominal_j, energy->low_j, energy->high_j, energy->nominal_j / tokens, energy->watts, machine.watts.value,
      100 * energy->busy,
      energy->idle_given ? fmt::format("{:.4g} W for the rest", machine.watts_idle.value)
                         : fmt::format("and for the rest, 0 W in low: {} gives no device.watts_idle", machine.path));
}

void add_energy(nlohmann::ordered_json& summary, const std::optional<ProjectedEnergy>& energy,
                const machine::Machine& machine, double tokens) {
  if (!energy) {
    summary["energy_missing"] = missing_text(machine);
    return;
  }
  summary["energy"] = {{"projected", true},
                       {"joules_per_step", energy->nominal_j},
                       {"joules_per_token", energy->nominal_j / tokens},
                       {"low_joules_per_token", energy->low_j / tokens},
                       {"high_joules_per_token", energy->high_j / tokens},
                       {"mean_watts", energy->watts},
                       {"busy_share", energy->busy},
                       {"idle_watts_given", energy->idle_given}};
}

double wait_s(const Failures& f, double interval_s) { return std::max(0.0, f.durable_s - f.hold_up_s - interval_s); }

double goodput(const Failures& f, double interval_s) {
  const double m = f.between_s, hold_up = f.hold_up_s + wait_s(f, interval_s);
  const double after_hold_up = std::max(0.0, f.durable_s - hold_up);
  // An interval takes τ + h without a failure. With one, what is lost begins at the last durable checkpoint: the delay
  // until it is durable is trained again, once for each failure.
  const double spent = m * std::exp((f.restart_s + after_hold_up) / m) * std::expm1((interval_s + hold_up) / m);
  return interval_s / spent;
}

double best_interval_s(const Failures& f) {
  constexpr double kLeast = 1e-3;
  double low = 0, high = f.between_s;  // τ − M (1 − e^(−(τ + h)/M)) rises from at most 0 to more
  for (int i = 0; i < 200; ++i) {
    const double middle = 0.5 * (low + high);
    (middle + f.between_s * std::expm1(-(middle + f.hold_up_s) / f.between_s) > 0 ? high : low) = middle;
  }
  return std::max({kLeast, high, std::min(f.durable_s - f.hold_up_s, f.between_s)});
}

double best_steps(const Failures& f, double step_s) {
  const double fewer = std::max(1.0, std::floor(best_interval_s(f) / step_s));
  return goodput(f, fewer * step_s) >= goodput(f, (fewer + 1) * step_s) ? fewer : fewer + 1;
}

}  // namespace shard8::project
