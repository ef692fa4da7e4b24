// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "deck/diagnostics.hpp"
#include "deck/raw_deck.hpp"

namespace shard8::deck {

/// Reads one YAML document of two levels, groups of scalar keys. Lists, deeper mappings, tags,
/// anchors, merge keys, duplicates and further documents are errors. `source` is the number of the
/// text in `errors`.
RawDeck read_yaml(Diagnostics& errors, int source, const std::string& text);

}  // namespace shard8::deck
