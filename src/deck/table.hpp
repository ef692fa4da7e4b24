// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace shard8::deck {

/// Every key with type, default, bounds, unit and meaning, of one group or of all (empty).
/// `format` is "yaml" or "nml", a deck to be filled in, each key under a comment that explains it,
/// or "markdown", the page docs/deck.md (all groups only). Throws base::Error(deck) for others and
/// for unknown groups.
std::string print_table(std::string_view format, std::string_view group = {});

}  // namespace shard8::deck
