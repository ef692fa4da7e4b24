// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "deck/source.hpp"

namespace shard8::deck {

/// A word of a deck as it was written.
struct Token {
  std::string text;     ///< without quotes, escapes undone
  bool quoted = false;  ///< stood in quotes
  Span where;           ///< with the quotes
};

struct RawEntry {
  enum class State {
    given,
    missing,   ///< nothing stands after the key
    rejected,  ///< what stands there is no scalar; the front end has reported it
  };

  Token key;
  Token value;
  State state = State::given;
};

struct RawGroup {
  Token name;
  std::vector<RawEntry> entries;
  bool has_value = false;  ///< "mesh: 2" in place of keys
};

/// What both front ends make: names and scalars as text, nothing known of their meaning.
/// Duplicates are reported by the front end and left out.
struct RawDeck {
  std::vector<RawGroup> groups;
  bool text_needs_quotes = false;  ///< namelists
  bool complete = true;            ///< false: too broken to say what is missing
};

}  // namespace shard8::deck
