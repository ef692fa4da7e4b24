// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace shard8::deck {

/// Every key with type, default, bounds, unit and meaning, of one group or (empty name) of all groups.
/// `format` "yaml" or "nml": a deck to be filled in, each key below a comment that explains it. `format` "markdown":
/// the page docs/deck.md, of all groups. Throws base::Error(deck) for other formats and unknown groups.
std::string print_table(std::string_view format, std::string_view group = {});

}  // namespace shard8::deck
