// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "machine/machine.hpp"
#include "profile/report.hpp"
#include "profile/report_files.hpp"
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

/// All that `shard8 project` says of one mesh.
struct Answer {
  Projection step;
  std::string stack{};                       ///< whose step it is; empty: shard8's
  double efficiency = 1;                     ///< Settings::efficiency
  std::uint64_t memory = 0;                  ///< planned bytes of a rank
  std::optional<Failures> failures{};        ///< nothing: the machine file says nothing of failures
  std::string no_goodput{};                  ///< why there are no failures
  double interval_s = 0;                     ///< of the deck's checkpoints; 0: it writes none
  std::string changes{};                     ///< of --what-if, as given
  std::optional<Projection> unchanged{};     ///< the step without these changes
  std::vector<Sensitivity> sensitivities{};  ///< empty unless requested
  std::optional<WorstRouting> worst{};       ///< worst_routing()
};

/// The report of a run of the projected step, for readers of reports: one step, all ranks alike. The report's
/// verification is `not checked`.
profile::Report report_of(const Answer& answer, const deck::Config& config, const machine::Machine& machine);

/// The line that says what a machine file does not give, and what was taken in its place; empty for no entries.
std::string not_given_text(const std::vector<machine::NotGiven>& entries);

/// What `shard8 project` prints: a run's report, each figure under the word projected, then how sure it is, what was
/// not an entry of the machine file, goodput and what changes would do.
std::string to_text(const Answer& answer, const deck::Config& config, const machine::Machine& machine);

/// The text of a summary.json with the object "projected", which holds everything of `answer`. `input` says what was
/// projected: command, version, deck, date.
std::string to_json(const Answer& answer, const deck::Config& config, const machine::Machine& machine,
                    const profile::SummaryInput& input);

/// Values of one key of a deck that a sweep tries.
struct Varied {
  std::string key;
  std::vector<std::string> values;
};

/// One mesh with one value of each varied key.
struct SweepRow {
  base::Extents mesh;
  std::vector<std::string> values;  ///< of the varied keys
  std::uint64_t memory = 0;         ///< planned bytes of a rank
  Projection step;                  ///< empty (nominal_s = 0) if it does not fit
  double tokens_per_s = 0;
};

struct Sweep {
  std::int64_t ranks = 0;
  std::vector<Varied> varied;
  std::vector<SweepRow> rows;                                   ///< what fits, the most tokens a second first
  std::vector<SweepRow> too_large;                              ///< what does not fit, the least memory first
  std::vector<std::pair<SweepRow, std::string>> not_projected;  ///< what the machine file does not say enough for: why
  /// What makes the same step, with the same memory, as values that were tried before: these.
  std::vector<std::pair<SweepRow, std::vector<std::string>>> same;
  std::vector<machine::NotGiven> not_given;  ///< of all rows
  std::uint64_t most = 0;                    ///< bytes of a rank
  std::int64_t refused = 0;                  ///< combinations that do not go with the deck
  std::string why{};                         ///< the first refusal
};

/// Projects every mesh of train::meshes_of() with every combination of the varied values. `load` makes the config of a
/// mesh and of settings "key=value"; it throws Error(deck) for one that does not go with the deck. What needs more than
/// `most` bytes a rank is not projected, and neither is what the machine file does not say enough for. Values of a mesh
/// that make the same step are one row, that of the first: data.micro_batch, for one, is cut to a data rank's
/// sequences.
Sweep sweep(std::int64_t ranks, std::span<const std::int64_t> experts, std::uint64_t most,
            const machine::Machine& machine, const Settings& settings, std::vector<Varied> varied,
            const std::function<deck::Config(const base::Extents&, std::span<const std::string>)>& load);

std::string to_text(const Sweep& sweep);
/// `settings` are the lines that say what was projected: machine, file, changes.
std::string to_json(const Sweep& sweep, const std::vector<std::pair<std::string, std::string>>& settings);

}  // namespace shard8::project
