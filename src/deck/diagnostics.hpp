// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

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

}  // namespace shard8::deck
