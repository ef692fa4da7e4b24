// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/directory.hpp"
#include "deck/config.hpp"
#include "train/training_file.hpp"

namespace shard8::train {

// Where a run starts, and to which training it belongs. Plain files, no MPI: one process calls these functions.

/// What a start depends on in addition to the deck's values.
struct StartQuestion {
  const deck::Config& config;
  /// Where the run looks for its checkpoints and writes them, as checkpoint_folder() finds it; empty: nowhere.
  const std::string& folder;
  const std::vector<checkpoint::ManifestKey>& deck;  ///< of this run, resolved
  const Inputs& inputs;                              ///< of this run
  bool requeued = false;                             ///< SLURM_RESTART_COUNT is above 0
  std::string slurm_job{};                           ///< SLURM_JOB_ID; empty: none
};

/// Where a run starts.
struct Start {
  Identity identity;
  /// Folders of checkpoints to go on from: the first one, and those to fall back to, of the same training. Empty: the
  /// run begins at step 0.
  std::vector<std::string> points;
  bool required = false;  ///< only the first of the points will do
  /// The training has no checkpoint of its own yet and begins once more, from the same checkpoint or from step 0.
  bool begins_again = false;
  bool is_child = false;    ///< the identity is new, and the points belong to its parent
  bool is_later = false;    ///< a later leg goes on, which output.replace does not concern
  bool has_others = false;  ///< find_start_of(): the folders hold files of other trainings

  /// Whether what cannot be read, or does not say whose it is, may belong to this run's training.
  bool goes_on() const { return !is_child && (!points.empty() || begins_again); }
};

/// Finds out where a run starts.
///
/// The first leg of a training does what checkpoint.restart says. Later legs go on in their own folder, whatever the
/// key says. A later leg is: a job that Slurm has queued again; a run whose checkpoint.restart names the checkpoint
/// with which the newest checkpoint's training began, with the same deck; a run with the same checkpoint.restart and
/// deck as a training in output.dir that is not finished and has no checkpoint yet.
///
/// A run that goes on from the last usable checkpoint of a training, with keys that may change at a restart, belongs to
/// that training. A run that falls back past damaged checkpoints belongs to that training, too. A run that was told an
/// older step, or that changes other keys, is a child of that training, with an id of its own. All others are trainings
/// without a parent.
///
/// `say` gets warnings: checkpoints that cannot be used, and going back behind what `latest` names. Error(checkpoint)
/// when the deck names a checkpoint that cannot be used, when none in the folder can be used though it holds some or
/// what is left of some, or when keys or inputs differ that may not (refuse_changes()). Error(deck) for a damaged
/// training.json, Error(environment) when it cannot be read.
Start find_start(const StartQuestion& question, const std::function<void(const std::string&)>& say);

/// What output.dir and checkpoint.dir hold of other trainings than a run's own.
struct Others {
  std::string in_output;       ///< what output.dir holds, in words; empty: nothing
  std::string in_checkpoints;  ///< what checkpoint.dir holds, in words; empty: nothing
  bool any() const { return !in_output.empty() || !in_checkpoints.empty(); }
};

/// Looks for the files of other trainings in the folders that a run writes to. Errors as find_start().
Others find_others(const StartQuestion& question, const Start& start);

/// Error(deck) which names what is there and the keys to set, if there is anything and output.replace is false, or if
/// it would move the checkpoint that model.init_file names.
void refuse_others(const StartQuestion& question, const Start& start, const Others& others);

/// "training ID", or "training ID, a child of ID at step N".
std::string text_of(const Identity& identity);

}  // namespace shard8::train
