// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "deck/diagnostics.hpp"

namespace shard8::deck {

/// A name or value of a deck, as written.
struct Token {
  std::string text;     ///< without quotes, escapes undone
  bool quoted = false;  ///< was written in quotes
  Span where;           ///< includes the quotes
};

/// A key and its value. Without State::given, `value` has no text, only a place.
struct RawEntry {
  enum class State {
    given,
    missing,   ///< no value follows the key
    rejected,  ///< the value is not a scalar; the front end has added the error
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

/// What the front ends (YAML, namelists, command line) produce: names and scalars as text. No name is checked against
/// the table of fields. A front end reports duplicates and leaves them out.
struct RawDeck {
  std::vector<RawGroup> groups;
  bool text_needs_quotes = false;  ///< true for namelists: a text or choice without quotes is an error
  bool complete = true;            ///< false: so much could not be read that missing keys are not reported
};

/// Builds a RawDeck for the YAML and namelist front ends. Reports duplicates and leaves them out.
class RawBuilder {
 public:
  RawBuilder(Diagnostics& errors, int source) : errors_(errors), source_(source) {}

  /// Opens a group; the functions below add to it. Returns false and adds an error if the deck has the group already;
  /// the caller then has to skip the group's keys.
  bool group(const Token& name);

  /// Marks the open group as having a value in place of keys.
  void group_has_value() { deck_.groups.back().has_value = true; }

  /// Notes that the open group has this key. Returns false and adds an error if it has the key already; otherwise the
  /// caller then calls entry(), missing() or rejected().
  bool key(const Token& name);

  /// Adds a key with its value.
  void entry(const Token& key, const Token& value);
  /// Adds a key without a value.
  void missing(const Token& key);
  /// Adds a key whose value is not a scalar, and an error.
  void rejected(const Token& key, const Span& where, std::string message, std::string hint = {});

  void error(const Span& where, std::string message, std::string hint = {});
  /// Sets RawDeck::complete to false.
  void incomplete() { deck_.complete = false; }

  /// A span of this source. Line and column count from 1. The length is cut at the end of the line; it is at least 1.
  Span span(int line, int column, std::size_t length) const;
  /// The source from the span's beginning to the end of its line. Valid as long as the source.
  std::string_view rest_of_line(const Span& where) const;

  RawDeck take() { return std::move(deck_); }

 private:
  Diagnostics& errors_;
  int source_;
  RawDeck deck_;
  std::map<std::string, int> group_lines_;
  std::map<std::string, int> key_lines_;  // of the open group
};

/// Adds an error with message `what` for an unknown name. Its hint is the one of `names` that was probably meant, else
/// `home`, else the list of names, which `all` begins: "its keys are ...". Returns the name that was meant, or an empty
/// text.
std::string unknown_name(Diagnostics& errors, const Token& name, const std::string& what,
                         std::span<const std::string_view> names, std::string_view all, const std::string& home = {});

/// Reads one YAML document of two levels, groups of scalar keys. Lists, deeper mappings, tags,
/// anchors, merge keys, duplicates and further documents are errors. `source` is the number of the
/// text in `errors`.
RawDeck read_yaml(Diagnostics& errors, int source, const std::string& text);

/// Reads Fortran namelist groups, `&mesh shard = 2, tensor = 2 /`, closed by `/` or `&end`, `$` for
/// `&` as of old; names in any case, `!` comments, '..' and ".." with doubled quotes. Every key has
/// one value: arrays, repeats, null values, components and complex numbers are errors, as are
/// duplicates and anything but comments between groups. `source` is the number of the text in
/// `errors`.
RawDeck read_namelist(Diagnostics& errors, int source, std::string_view text);

/// Reads arguments `group.key=value`. Each becomes a source of its own in `errors`. The value is all that follows the
/// first '='; quotes are not taken off. Of the same key several times, the last one counts, and the others are not
/// read.
RawDeck read_overrides(Diagnostics& errors, std::span<const std::string> arguments);

}  // namespace shard8::deck
