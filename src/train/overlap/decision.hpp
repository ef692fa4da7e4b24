// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "profile/figures.hpp"
#include "train/assembly.hpp"
#include "train/saved_run.hpp"

namespace shard8::train {

/// What the keys `auto` of the deck's group overlap become in a run.
struct OverlapDecision {
  profile::OverlapChoice choice;     ///< without rows every `auto` becomes `off`
  std::string plan;                  ///< for output.dir/overlap.json and checkpoints; empty: there is nothing to keep
  std::vector<std::string> remarks;  ///< lines for the header
};

/// Decides before the assembly starts. The choice is read from the checkpoint that the run goes on from, else from
/// output.dir/overlap.json, if it fits this run; otherwise the exchanges are timed, unless that takes more memory than
/// the run. A choice fits if it was measured under the conditions of this run, all of them; for that of a checkpoint
/// the program may be another one. What does not fit, or is malformed, becomes a remark.
/// `checkpoint`: its name for the header, and `saved` what it keeps; both empty for a new run. Collective; every rank
/// gets the same. AgreedError(environment) when a rank has not enough memory.
OverlapDecision decide_overlap(Assembly& assembly, const std::string& checkpoint, const SavedChoices& saved);

}  // namespace shard8::train
