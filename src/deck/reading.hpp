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

/// A Config in the making and where its values came from. Keys are named "group.key".
struct Reading {
  Config config;
  std::map<std::string, Span, std::less<>> groups;  ///< their names in the deck
  std::map<std::string, Span, std::less<>> values;  ///< of the keys that are given
  std::set<std::string, std::less<>> broken;        ///< keys without a value to be used
  std::set<std::string, std::less<>> misspelt;      ///< groups and keys meant by unknown names

  bool given(std::string_view path) const { return values.find(path) != values.end(); }
};

/// Converts what a deck (or the command line, read after it) gives, by the table of fields, into
/// the Config. Unknown names, wrong types, values out of bounds are errors.
void read_fields(Diagnostics& errors, Reading& reading, const RawDeck& deck);

/// Every required key that was not given is an error, at its group.
void check_required(Diagnostics& errors, Reading& reading);

}  // namespace shard8::deck
