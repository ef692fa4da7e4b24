// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

#include "deck/field.hpp"

namespace shard8::deck {

/// Every group and key that a deck may have, in the order in which they are printed.
std::span<const Group> all_groups();

/// nullptr if there is none of that name.
const Group* find_group(std::string_view name);
const Field* find_field(const Group& group, std::string_view key);

/// Throws std::logic_error for names that are not in the table ("model.hidden").
const Field& field_at(std::string_view path);

}  // namespace shard8::deck
