// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "checkpoint/box_index.hpp"
#include "checkpoint/directory.hpp"
#include "deck/config.hpp"
#include "train/setup.hpp"

namespace shard8::train {

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
