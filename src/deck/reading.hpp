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
  std::map<std::string, Span, std::less<>> groups;  ///< by name: where the group is first named
  /// By key: where its value is given, on the command line or else in the deck.
  std::map<std::string, Span, std::less<>> values;
  std::set<std::string, std::less<>> broken;    ///< keys without a usable value
  std::set<std::string, std::less<>> misspelt;  ///< groups and keys that an unknown name probably meant

  /// Whether the deck or the command line gives the key, with a usable value or not.
  bool given(std::string_view path) const { return values.find(path) != values.end(); }
};

/// Converts the values of a deck into the Config, by the table of fields. Values of the command line are a RawDeck of
/// their own; they replace the deck's if they are read after it. Adds an error for each unknown name, wrong type and
/// value out of bounds, and marks keys without a usable value as broken.
void read_fields(Diagnostics& errors, Reading& reading, const RawDeck& deck);

/// Adds an error, placed at the group, for each group in which required keys are not given. Keys and groups that an
/// unknown name probably meant are left out. Marks all these keys as broken.
void check_required(Diagnostics& errors, Reading& reading);

}  // namespace shard8::deck
