// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/manifest.hpp"
#include "deck/written_files.hpp"
#include "train/restart_deck.hpp"

namespace shard8::train {

/// Which training a run belongs to.
struct Identity {
  std::string id;  ///< 16 hexadecimal digits
  /// The checkpoint of another training with which this one began; none: it began at step 0.
  std::optional<checkpoint::Parent> parent{};

  /// The number of the training's first step.
  std::int64_t first_step() const { return parent ? parent->step : 0; }
};

/// One process's part of a training: from its start to its end, its stop, or its death.
struct Leg {
  std::int64_t first_step = 0;
  std::int64_t trained_again = 0;  ///< steps from first_step on that an earlier leg had trained, too
  std::string date{};              ///< UTC, when it began to train
  std::string restart{};           ///< the leg's checkpoint.restart, as the deck's reading found it
  // Files of versions before 0.3 have none of the next five.
  std::string process_began{};         ///< base::utc_text(); empty: not known
  std::optional<double> start_up_s{};  ///< from the process's begin until the files of the leg were there
  std::string ended{};                 ///< base::utc_text() of the leg's report; empty: it was killed, or still runs
  std::string last_seen{};             ///< of a leg that was killed: when metrics.jsonl was written last
  std::int64_t lost = 0;               ///< steps that later legs found in metrics.jsonl and trained again
  std::optional<double> lost_s{};      ///< seconds of these steps; none: no later leg began
  // Known once the leg has ended; a leg that was killed has none of them.
  std::optional<std::int64_t> next_step{};   ///< number of the first step that it did not train
  std::optional<std::int64_t> checkpoint{};  ///< step of the last checkpoint that it wrote
  std::optional<double> seconds{};           ///< from the start of the process to its report
  std::string end{};                         ///< "finished", or why it stopped
};

/// The file training.json in output.dir: whose the other files there are, and how its training began.
struct TrainingFile {
  static constexpr const char* kName = deck::kTrainingFile;

  Identity identity;
  std::string origin{};                         ///< folder of the checkpoint with which the training began; empty: none
  std::vector<checkpoint::ManifestKey> deck{};  ///< resolved, of the last leg
  Inputs inputs{};                              ///< of the last leg; weights: those with which the training began
  std::string slurm_job{};                      ///< SLURM_JOB_ID of the last leg; empty: none
  /// Not 0: the files of another training are being moved to folders replaced_N; a start that finds this goes on with
  /// it.
  std::int64_t replacing = 0;
  bool finished = false;  ///< the last leg trained the last step of its deck
  std::vector<Leg> legs{};
};

/// The text of the file, JSON.
std::string to_text(const TrainingFile& file);

/// The file in a folder; none if there is none. Error(environment) if it cannot be read, Error(deck) if it is damaged,
/// with what to do.
std::optional<TrainingFile> read_training_file(const std::string& folder);

/// Writes FOLDER/training.json durably. Error(environment).
void write_training_file(const std::string& folder, const TrainingFile& file);

/// Whether a leg of the training in `folder` was given this value of checkpoint.restart, so that the checkpoint which
/// it names need not be there any more. False for a file that cannot be read.
bool has_used_restart(const std::string& folder, const std::string& restart);

/// A name for a training that begins: 64 random bits as 16 hexadecimal digits.
std::string draw_id();

}  // namespace shard8::train
