// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "profile/report.hpp"
#include "profile/report_files.hpp"
#include "project/costs.hpp"
#include "project/projection.hpp"

namespace shard8::project {

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

/// Projects every mesh of `ranks` ranks with every combination of the varied values. `load` makes the config of a mesh
/// and of settings "key=value"; it throws Error(deck) for one that does not go with the deck. What needs more than
/// `most` bytes a rank is not projected, and neither is what the machine file does not say enough for. Values of a mesh
/// that make the same step are one row, that of the first: data.micro_batch, for one, is cut to a data rank's
/// sequences.
Sweep sweep(std::int64_t ranks, std::uint64_t most, const machine::Machine& machine, const Settings& settings,
            std::vector<Varied> varied,
            const std::function<deck::Config(const base::Extents&, std::span<const std::string>)>& load);

std::string to_text(const Sweep& sweep);
/// `settings` are the lines that say what was projected: machine, file, changes.
std::string to_json(const Sweep& sweep, const std::vector<std::pair<std::string, std::string>>& settings);

}  // namespace shard8::project
