// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace shard8::train {

/// What a run chose by timing, as texts that a checkpoint's manifest keeps as its plan.
struct SavedChoices {
  std::string algorithms;  ///< of matrix products, as kernels::Libraries::algorithms(); empty: none
  std::string overlap;     ///< of the keys `auto` of the group overlap, JSON; empty: none
};

/// The plan of a manifest. Without a choice of overlap it is the text of the algorithms; otherwise the choice goes
/// before it, in a line of its own.
std::string plan_text(const SavedChoices& choices);
SavedChoices choices_of_plan(const std::string& plan);

}  // namespace shard8::train
