// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/utc.hpp"
#include "checkpoint/directory.hpp"
#include "checkpoint/manifest.hpp"
#include "checkpoint/state_tensor.hpp"
#include "deck/config.hpp"
#include "deck/layout.hpp"
#include "train/setup.hpp"

namespace shard8::train {

// What a restart with an edited deck may change. `saved` are the keys of a checkpoint's manifest, `now` those of this
// run's deck.

/// A key whose values differ.
struct DeckChange {
  std::string key, before, now;
};

/// The inputs of a training by content; none: synthetic data, random weights.
struct Inputs {
  std::optional<checkpoint::ManifestInput> data{}, weights{};
  std::optional<checkpoint::ManifestInput> validation{};  ///< as Manifest::validation
};

/// Whether both name inputs of the same content, wherever they lie, or none.
bool same_content(const std::optional<checkpoint::ManifestInput>& one,
                  const std::optional<checkpoint::ManifestInput>& other);

/// The keys of both decks whose values differ, in the order of `now`. optimizer.decay_steps is left out if
/// saved_decay() replaces it. data.path and model.init_file are left out as well: inputs are compared by content.
std::vector<DeckChange> deck_changes(const std::vector<checkpoint::ManifestKey>& saved,
                                     const std::vector<checkpoint::ManifestKey>& now);

/// The inputs whose content differs from what the checkpoint's training read, as changes of "content of data.path" and
/// "content of model.init_file", or whose validation does, as that of "content of data.validation_path". An input that
/// lies elsewhere with the same content has not changed. A deck without model.init_file changes nothing, since a
/// restart does not read that file. Nothing is found for a manifest of format 1, which does not say what its inputs
/// were.
std::vector<DeckChange> input_changes(const checkpoint::Manifest& saved, const Inputs& now);

/// Whether the losses of validations that a checkpoint's training recorded are those of the sequences that this run
/// validates. For a checkpoint without Manifest::validation the keys of the decks are compared.
bool same_validation(const checkpoint::Manifest& saved, const Inputs& now,
                     const std::vector<checkpoint::ManifestKey>& deck);

/// Whether one of the changes needs checkpoint.allow_changes.
bool needs_permission(const std::vector<DeckChange>& changes);

/// Whether a key may change without checkpoint.allow_changes: it changes neither what is trained nor on which data.
bool may_change_at_restart(const std::string& key);
/// Whether a key may not change at all: the checkpoint would be that of another model.
bool must_not_change_at_restart(const std::string& key);

/// Whether weights in FP8, their scales and the histories of amaxes must be made from the masters, as at the start of a
/// training, because the keys that they depend on have changed.
bool changes_fp8(const std::vector<DeckChange>& changes);

/// The checkpoint's optimizer.decay_steps, if the deck of this run does not give another value but has the default.
/// Nothing if both are equal.
std::optional<std::int64_t> saved_decay(const std::vector<checkpoint::ManifestKey>& saved,
                                        const std::vector<checkpoint::ManifestKey>& now);

/// "KEY: A in the checkpoint, B in this deck"
std::string text_of(const DeckChange& change);

/// Error(checkpoint) with the keys that may not change. `folder`: of the checkpoint, for the message.
void refuse_changes(const std::vector<DeckChange>& changes, bool allow_changes, const std::string& folder);

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

/// What a checkpoint's deck says of the model and how it is trained: the groups model, moe, precision, fp8 and
/// optimizer, and of the others the mesh, the batch and the steps; all else is a default. model.init_file is empty and
/// the data are synthetic, so that no file is looked for. Error(checkpoint) if the keys are not those of a deck of this
/// program.
deck::Config saved_config(const checkpoint::Checkpoint& checkpoint);

/// What to say where the weights of a model that was trained as `saved` says are to be used with a router that chooses:
/// moe.routing drew the experts, and the router never chose. Empty if the router chose, or there are no experts.
/// `folder`: of the checkpoint.
std::string drawn_experts_text(const std::string& folder, const deck::ModelConfig& saved);

/// What a run chose by timing, as texts that a checkpoint's manifest keeps as its plan.
struct SavedChoices {
  std::string algorithms;  ///< of matrix products, as kernels::Libraries::algorithms(); empty: none
  std::string overlap;     ///< of the keys `auto` of the group overlap, JSON; empty: none
};

/// The plan of a manifest. Without a choice of overlap it is the text of the algorithms; otherwise the choice goes
/// before it, in a line of its own.
std::string plan_text(const SavedChoices& choices);
SavedChoices choices_of_plan(const std::string& plan);

/// The ranks that held a box of a tensor in a run of this deck on the mesh `saved`, by the rules that state_tensors()
/// follows. Where the saved run had another granularity of shards (another FP8 recipe), the answer may be a
/// neighbour.
checkpoint::LikelyRanks likely_ranks(const Setup& setup, const base::Extents& saved);

}  // namespace shard8::train
