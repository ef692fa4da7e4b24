// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "deck/config.hpp"
#include "deck/diagnostics.hpp"
#include "deck/raw_deck.hpp"

namespace shard8::deck {

/// A Config that is being read, and where its values came from. Keys are named "group.key".
struct Reading {
  Config config;
  std::map<std::string, Span, std::less<>> groups;  ///< by name: where the deck names them
  std::map<std::string, Span, std::less<>> values;  ///< by key: where the value is given
  std::set<std::string, std::less<>> broken;        ///< keys without a usable value
  std::set<std::string, std::less<>> misspelt;      ///< groups and keys that an unknown name probably meant

  bool given(std::string_view path) const { return values.find(path) != values.end(); }
};

/// Converts the values of a deck, or of the command line (read after the deck), into the Config, by the table of
/// fields. Adds an error for each unknown name, wrong type and value out of bounds.
void read_fields(Diagnostics& errors, Reading& reading, const RawDeck& deck);

/// Adds an error for each required key that is not given, at its group.
void check_required(Diagnostics& errors, Reading& reading);

}  // namespace shard8::deck
