// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "deck/config.hpp"

namespace shard8::deck {

/// Whether fc2's wgrad can run later than fc2's dgrad, as overlap.proj_dgrad needs it: not if a recomputed matrix
/// overwrites fc2's input in FP8 before.
bool fc2_wgrad_can_wait(const Config& config);
/// Whether proj's wgrad can run when the backward of the layer below has begun, as overlap.fc2_dgrad needs it: not if
/// what that layer recomputes overwrites proj's input.
bool proj_wgrad_can_wait(const Config& config);

/// Which exchanges run beside products, for the report's header.
std::string describe_overlap(const Config& config);

}  // namespace shard8::deck
