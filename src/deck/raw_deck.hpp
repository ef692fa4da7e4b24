// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "deck/config.hpp"

namespace shard8::deck {

/// Where a deck's text came from: a file, or one argument of the command line.
struct Source {
  std::string name;                ///< "inputs/tiny.yaml" or "command line:mesh.tensor=2"
  std::vector<std::string> lines;  ///< without line ends
  bool numbered = true;            ///< whether messages show line and column; false for one argument
};

/// A part of one line of a source. Lines and columns count from 1; columns and length count bytes. Length 0 means the
/// whole source: messages show no line.
struct Span {
  int source = 0;  ///< a number from Diagnostics::add_source()
  int line = 1;
  int column = 1;
  int length = 0;
};

/// The text with a line feed at the end of each line. Lines end with a line feed, a carriage return, or the two in this
/// order.
std::string with_line_feeds(std::string_view text);

/// Splits a text at the ends of its lines, which are those of with_line_feeds().
std::vector<std::string> split_lines(std::string_view text);

/// Collects the errors of a deck, so that all of them are reported at once:
///
///     inputs/tiny.yaml:14:3: error: unknown key 'tensr' in group 'mesh'
///        14 |   tensr: 2
///           |   ^~~~~  did you mean 'tensor'?
class Diagnostics {
 public:
  /// Adds a source. Returns its number, for Span::source.
  int add_source(Source source);
  const Source& source(int number) const { return sources_.at(static_cast<std::size_t>(number)); }

  /// Adds an error. `hint` says what is allowed; it is printed behind the caret.
  void error(Span where, const std::string& message, const std::string& hint = {});

  /// Adds a warning: the deck is valid, but a key in it probably does not do what was meant.
  void warning(Span where, const std::string& message, const std::string& hint);

  /// Whether there are no errors. Warnings are not counted.
  bool empty() const { return entries_.empty(); }

  /// The errors in the order of source, line and column, each once. The first 50 are shown, the others counted. Errors
  /// beyond 10,000 are only counted when they are added.
  std::string text() const;

  /// All warnings in the order in which they were added, each in the form of an error.
  std::vector<std::string> warnings() const;

  /// Throws base::Error(deck) with text() if there is any error.
  void throw_if_any() const;

 private:
  struct Entry {
    Span where;
    std::string message;
    std::string hint;
  };

  static Entry entry_of(Span where, const std::string& message, const std::string& hint);
  std::string render(const Entry& entry, std::string_view kind) const;

  std::vector<Source> sources_;
  std::vector<Entry> entries_;
  std::vector<Entry> warnings_;
  std::size_t not_kept_ = 0;  // errors beyond those that are kept
};

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

/// Adds an error with message `what` for an unknown name. The hint of the error is the one of `names` that was probably
/// meant, else `home`, else the list of names, which `all` begins: "its keys are ...". Returns the name that was meant,
/// or an empty text.
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
/// first '='; quotes are not taken off. If one key is given several times, the last argument counts, and the others are
/// not read.
RawDeck read_overrides(Diagnostics& errors, std::span<const std::string> arguments);

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
