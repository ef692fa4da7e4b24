// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <utility>

#include "deck/diagnostics.hpp"
#include "deck/raw_deck.hpp"

namespace shard8::deck {

/// What both front ends do alike: adds groups and entries, keeps out duplicates and reports them.
class RawBuilder {
 public:
  RawBuilder(Diagnostics& errors, int source) : errors_(errors), source_(source) {}

  /// Opens a group; false (and an error) if the deck has it already.
  bool group(const Token& name);

  /// The open group was given a value where keys should stand.
  void group_has_value() { deck_.groups.back().has_value = true; }

  /// Notes a key of the open group; false (and an error) if the group has it already.
  bool key(const Token& name);

  void entry(const Token& key, const Token& value);
  void missing(const Token& key);
  /// Reports what stands in place of a value.
  void rejected(const Token& key, const Span& where, std::string message, std::string hint = {});

  void error(const Span& where, std::string message, std::string hint = {});
  /// The deck cannot be understood as a whole: what it lacks is not to be reported.
  void incomplete() { deck_.complete = false; }

  /// Line and column from 1; the length is cut at the end of the line, at least 1.
  Span span(int line, int column, std::size_t length) const;
  /// The source from there to the end of the line.
  std::string rest_of_line(const Span& where) const;

  RawDeck take() { return std::move(deck_); }

 private:
  Diagnostics& errors_;
  int source_;
  RawDeck deck_;
  std::map<std::string, int> group_lines_;
  std::map<std::string, int> key_lines_;  // of the open group
};

}  // namespace shard8::deck
