// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "train/setup.hpp"

namespace shard8::train {

/// When a step updates each unit, and when it issues the first gathers of the next step.
struct UpdatePlan {
  enum class When : std::uint8_t {
    as_reduced,  ///< a unit is updated as soon as its own gradients are reduced
    after_norm,  ///< all units are updated after all gradients are reduced, summed over tensor ranks and normed
  };
  When when = When::after_norm;
  std::vector<int> order;  ///< every unit once
  /// Position in `order`: the first gathers of the next step are issued just before this update, so that they travel
  /// while it computes. None: they are issued at the end of the step. No gather reads the shards of a unit that is
  /// updated at this position or later.
  std::optional<std::size_t> gather_before;
};

/// The plan of every step of a run. A unit can be updated as its gradients are reduced where neither clipping needs
/// the norm of all gradients first nor tensor ranks still have to sum what they share.
UpdatePlan plan_updates(const Setup& setup);

}  // namespace shard8::train
