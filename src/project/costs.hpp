// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "machine/machine.hpp"
#include "project/projection.hpp"

namespace shard8::project {

/// Joules of a projected step, of all ranks' devices; processors and switches are not in them. A device takes
/// device.watts, its limit, while it computes, and device.watts_idle in the rest of the step. Without watts_idle the
/// rest counts with device.watts, and with 0 W in low_j.
struct ProjectedEnergy {
  double low_j = 0, nominal_j = 0, high_j = 0;  ///< with the low, nominal and high step, and the same busy share
  double watts = 0;                             ///< nominal mean, of all devices
  double busy = 0;                              ///< share of the step in which a device computes
  bool idle_given = true;
};

/// Nothing if the machine file gives no device.watts. `ranks`: each has one device.
std::optional<ProjectedEnergy> energy_of(const Projection& step, const machine::Machine& machine, double ranks);

/// The line of the report; `tokens` of a step.
std::string energy_text(const std::optional<ProjectedEnergy>& energy, const machine::Machine& machine, double tokens);
/// Adds the object "energy", or "energy_missing", to a summary.
void add_energy(nlohmann::ordered_json& summary, const std::optional<ProjectedEnergy>& energy,
                const machine::Machine& machine, double tokens);

/// What failures and checkpoints cost a long training. Times in seconds.
struct Failures {
  double between_s = 0;  ///< mean time between failures of the whole job
  double hold_up_s = 0;  ///< for which training waits at each checkpoint
  double durable_s = 0;  ///< from the begin of a checkpoint until a run can restart from it; at least hold_up_s
  double restart_s = 0;  ///< from a failure to the first new step, reading included
};

/// The share of wall-clock time in which training goes forward, with a checkpoint after every `interval_s` of training.
/// Daly's model of exponentially distributed failures (Future Generation Computer Systems 22, 2006, equation 13):
/// τ / (M e^((R + d − h)/M) (e^((τ + h)/M) − 1)), with the interval τ, the hold-up h, the time d until a checkpoint is
/// durable, the restart time R and the mean time between failures M. Daly's checkpoints are waited for, d = h. What is
/// trained while one becomes durable is trained again after a failure, as if the restart took that much longer.
/// wait_s() is a part of the hold-up.
double goodput(const Failures& failures, double interval_s);

/// How long training waits at each checkpoint until the one before is durable: a run writes one at a time
/// (train::Checkpoints).
double wait_s(const Failures& failures, double interval_s);

/// The interval with the highest goodput, at least a millisecond: τ = M (1 − e^(−(τ + h)/M)), where the derivative of
/// goodput() is zero for τ > d − h. If that is below d − h, the interval is d − h, or M if that is less.
double best_interval_s(const Failures& failures);

/// The number of steps of `step_s` seconds between checkpoints with the highest goodput, at least one. Goodput has one
/// maximum, so the number is a neighbour of best_interval_s().
double best_steps(const Failures& failures, double step_s);

/// A property of a machine that a projection may change, by a factor.
struct Property {
  std::string_view key;   ///< "network.bandwidth"
  std::string_view help;  ///< what the factor changes
  void (*scale)(machine::Machine& machine, double factor);
};
std::span<const Property> properties();

/// A change of one property.
struct Change {
  const Property* property = nullptr;
  double factor = 1;
};
/// Reads "network.bandwidth=0.5x,device.power=0.8x". Error(deck) for an unknown property or another form.
std::vector<Change> read_changes(const std::string& text, std::string_view option);
machine::Machine changed(machine::Machine machine, std::span<const Change> changes);

/// The nominal step with one property halved and doubled.
struct Sensitivity {
  std::string_view key;
  double half_s = 0, double_s = 0;
};
/// The sensitivity of the step to every property, the property that changes the step most first.
std::vector<Sensitivity> sensitivities(const deck::Config& config, const machine::Machine& machine,
                                       const Settings& settings);

}  // namespace shard8::project
