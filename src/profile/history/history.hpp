// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "profile/report_files.hpp"

namespace shard8::profile {

/// What the files of a training say of one leg, which is one process's part of it. Points in time are seconds since the
/// begin of 1970.
struct LegRecord {
  std::int64_t first_step = 0;
  std::int64_t trained_again = 0;           ///< steps from first_step on that earlier legs had trained, too
  std::optional<std::int64_t> next_step{};  ///< the first step that it did not train; nothing: no end is recorded
  std::string end{};                        ///< "finished" or why it stopped; empty: no end is recorded
  std::optional<double> process_began{};    ///< nothing: a version before 0.3 wrote the record
  std::optional<double> trains_from{};      ///< nothing: the leg's files are elsewhere
  std::optional<double> ended{};            ///< of its report
  std::optional<double> last_seen{};        ///< without an end: when it wrote its last step
  std::optional<double> start_up_s{};
  std::optional<double> lost_s{};   ///< seconds of its steps that later legs trained again; nothing: not recorded
  std::optional<LegTimes> times{};  ///< of its summary; nothing: there is none, or it is of a version before 0.3
  bool has_summary = false;
  bool to_the_second = false;  ///< begin and end are known to the second only (versions before 0.3)
};

/// One leg as it is added up. Times are in seconds; what is not known is nothing.
struct LegHistory {
  std::int64_t number = 1;
  std::optional<double> began{}, ended{};  ///< seconds since the begin of 1970
  std::int64_t first_step = 0;
  std::int64_t counted = 0;            ///< steps that no later leg trained again
  std::int64_t lost = 0;               ///< steps that a later leg trained again
  std::string end{};                   ///< why it ended
  std::optional<double> gap_s{};       ///< from the end of the leg before to its begin; nothing for the first leg
  std::optional<double> start_up_s{};  ///< from the begin of the process to its first step: start and restart
  double counted_s = 0;                ///< of the steps that count, without checkpoints if those are known
  std::optional<double> lost_s{};      ///< of lost steps
  std::optional<double> held_up_s{};   ///< by checkpoints
  double validation_s = 0;             ///< of validations
  std::optional<double> other_s{};     ///< the rest: reports, and what is not known of the columns before
  std::vector<std::string> notes{};    ///< what was reconstructed or is not known, and why
};

/// What all legs of a training did. Times are in seconds and add up to the wall-clock: counted + lost + held up + start
/// up + gaps + validation + other.
struct History {
  std::vector<LegHistory> legs{};
  std::optional<double> began{}, ended{};  ///< of the first and the last leg whose times are known
  bool finished = false;
  double wall_s = 0;  ///< from began to ended
  double counted_s = 0, lost_s = 0, held_up_s = 0, start_up_s = 0, gaps_s = 0, validation_s = 0, other_s = 0;
  double rounding_s = 0;  ///< by how much the instants of all legs may be off together, as they are recorded
  std::int64_t counted = 0, lost = 0;
  std::vector<std::string> notes{};

  /// Seconds of steps that count by wall-clock, from 0 to 1; 0 without a wall-clock.
  double goodput() const { return wall_s > 0 ? std::min(counted_s / wall_s, 1.0) : 0; }
  /// Whether each part is a part of the wall-clock time, up to rounding: where a clock went back between the times of
  /// legs, some are negative or longer than it.
  bool shares_are_known() const;
};

/// Adds up the legs of a training. `steps` has the last time of each step that metrics.jsonl holds, in seconds on rank
/// 0. A leg counts the steps from its first one to the first one of any later leg. The last step of a leg without an
/// end is the last one of which a later leg, or metrics.jsonl, has a line. Hold-ups of checkpoints are taken out of
/// counted_s where the leg's summary has them. `finished`: the last leg trained the last step of its deck.
History add_up(const std::vector<LegRecord>& legs, const std::map<std::int64_t, double>& steps, bool finished);

/// What the summary.json of a leg says of it.
struct LegSummary {
  std::string training{};           ///< id; empty: schema 1, which has none
  std::int64_t leg = 0;             ///< from 1; 0 in schema 1
  std::optional<double> date{};     ///< when it was made, seconds since the begin of 1970, to the second
  std::optional<LegTimes> times{};  ///< nothing: of a version before 0.3
};

/// Reads the text of a summary.json. Error(deck) with the file's `name` and the remedy if it is no summary.
LegSummary read_leg_summary(const std::string& text, const std::string& name);

/// What `shard8 history` prints of the training in the folder `name`: a row for each leg, then where the wall-clock
/// went.
std::string to_text(const History& history, const std::string& name, const std::string& id);
/// The history as JSON.
std::string to_json(const History& history, const std::string& name, const std::string& id);

}  // namespace shard8::profile
