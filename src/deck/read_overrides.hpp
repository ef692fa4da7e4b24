// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "deck/diagnostics.hpp"
#include "deck/raw_deck.hpp"

namespace shard8::deck {

/// Reads arguments `group.key=value`, each a source of its own in `errors`; the value is what
/// follows '=', quotes and all. The same key twice is an error.
RawDeck read_overrides(Diagnostics& errors, std::span<const std::string> arguments);

}  // namespace shard8::deck
