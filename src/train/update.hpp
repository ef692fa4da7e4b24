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

/// The plan of every step of a run. It is as_reduced without clipping and with one tensor rank: clipping needs the norm
/// of all gradients first, and tensor ranks sum the gradients of replicated parameters after all reductions.
UpdatePlan plan_updates(const Setup& setup);

}  // namespace shard8::train
