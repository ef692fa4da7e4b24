// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "profile/report.hpp"
#include "profile/report_files.hpp"
#include "project/costs.hpp"
#include "project/projection.hpp"
#include "project/what_if.hpp"

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
  std::vector<Sensitivity> sensitivities{};  ///< empty unless asked for
};

/// The report of a run of the projected step, for readers of reports: one step, all ranks alike. Its verification is
/// not checked.
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

}  // namespace shard8::project
