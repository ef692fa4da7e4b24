// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace shard8::deck {

/// The text that `shard8 deck` prints: every key with type, default, bounds, unit and meaning. With format "yaml" or
/// "nml" it is a deck to be filled in, of one group or (empty name) of all groups; a comment above each key explains
/// it. With format "markdown" it is the page docs/deck.md, always of all groups. With format "schema" it is a JSON
/// schema (draft 2020-12) of YAML decks, always of all groups. Throws base::Error(deck) for another format or an
/// unknown group.
std::string print_table(std::string_view format, std::string_view group = {});

}  // namespace shard8::deck
