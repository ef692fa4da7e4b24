// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "deck/config.hpp"

namespace shard8::deck {

/// Whether fc2's wgrad can run later than fc2's dgrad, as overlap.proj_dgrad needs it: not if a recomputed matrix
/// overwrites fc2's input in FP8 before.
bool fc2_wgrad_can_wait(const Config& config);
/// Whether proj's wgrad can run when the backward of the layer below has begun, as overlap.fc2_dgrad needs it: not if
/// what that layer recomputes overwrites proj's input.
bool proj_wgrad_can_wait(const Config& config);

/// Which exchanges run beside products, for the report's header. A key that is auto counts as its method, and the text
/// says so.
std::string describe_overlap(const Config& config);

/// The keys of the group overlap that are auto, in the order of the table. None if nothing can overlap: overlap.enable
/// is false, or mesh.tensor is 1.
std::vector<std::string_view> auto_overlap_keys(const Config& config);
/// Sets a key of the group overlap that has a method, to "auto", "off" or the method's name. std::logic_error for
/// another key or value.
void set_overlap_key(Config& config, std::string_view key, std::string_view value);

}  // namespace shard8::deck
