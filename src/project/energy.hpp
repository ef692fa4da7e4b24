// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

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

}  // namespace shard8::project
