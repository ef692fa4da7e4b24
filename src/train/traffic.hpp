// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>

#include "profile/collective_log.hpp"
#include "train/state.hpp"

namespace shard8::train {

/// Calls a step of each kind of collective that this rank takes part in: what
/// profile::CollectiveLog counts in a run.
using Traffic = std::map<profile::CollectiveKey, std::uint64_t>;

/// Gathers and reductions of the units (shard and replicate groups).
Traffic unit_traffic(const Setup& setup, const fsdp::UnitBuffers& buffers);
/// Collectives of the tensor group: activations, cross entropy, shared gradients.
Traffic tensor_traffic(const Setup& setup, const fsdp::UnitBuffers& buffers);
/// Amaxes of weights (current) or of everything (delayed), once a step.
Traffic scaling_traffic(const Setup& setup);
/// All, of a step that is not the first.
Traffic traffic(const Setup& setup, const State& state);

}  // namespace shard8::train
