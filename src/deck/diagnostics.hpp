// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "deck/source.hpp"

namespace shard8::deck {

/// Collects what is wrong with a deck, so that all of it is told at once:
///
///     inputs/tiny.yaml:14:3: error: unknown key 'tensr' in group 'mesh'
///        14 |   tensr: 2
///           |   ^~~~~  did you mean 'tensor'?
class Diagnostics {
 public:
  /// Returns the number that spans of this source carry.
  int add_source(Source source);
  const Source& source(int number) const { return sources_.at(static_cast<std::size_t>(number)); }

  /// `hint` says what is allowed; it stands beside the caret.
  void error(Span where, std::string message, std::string hint = {});

  /// What is no error, but not what was meant, perhaps.
  void warning(Span where, std::string message, std::string hint);

  bool empty() const { return entries_.empty(); }

  /// All errors in the order of their positions, each once, the first 50 in full.
  std::string text() const;

  /// All warnings as they came, each a text of lines.
  std::vector<std::string> warnings() const;

  /// Throws base::Error(deck) with text() if there is any error.
  void throw_if_any() const;

 private:
  struct Entry {
    Span where;
    std::string message;
    std::string hint;
  };

  static Entry entry_of(Span where, std::string message, std::string hint);
  std::string render(const Entry& entry, std::string_view kind) const;

  std::vector<Source> sources_;
  std::vector<Entry> entries_;
  std::vector<Entry> warnings_;
};

}  // namespace shard8::deck
