// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/manifest.hpp"

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
/// saved_decay() replaces it. So are data.path and model.init_file: inputs are compared by content.
std::vector<DeckChange> deck_changes(const std::vector<checkpoint::ManifestKey>& saved,
                                     const std::vector<checkpoint::ManifestKey>& now);

/// The inputs whose content differs from what the checkpoint's training read, as changes of "content of data.path" and
/// "content of model.init_file", or whose validation does, as that of "content of data.validation_path". An input that
/// lies elsewhere with the same content has not changed. A deck without model.init_file changes nothing, since a
/// restart does not read that file. Nothing is found for a manifest of format 1, which does not say what its inputs
/// were.
std::vector<DeckChange> input_changes(const checkpoint::Manifest& saved, const Inputs& now);

/// Whether the losses of validations that a checkpoint's training recorded are those of the sequences that this run
/// validates. Of a checkpoint without Manifest::validation the keys of the decks are compared.
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

}  // namespace shard8::train
