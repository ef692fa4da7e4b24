// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
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

  bool empty() const { return entries_.empty(); }

  /// All errors in the order of their positions, each once, the first 50 in full.
  std::string text() const;

  /// Throws base::Error(deck) with text() if there is any error.
  void throw_if_any() const;

 private:
  struct Entry {
    Span where;
    std::string message;
    std::string hint;
  };

  std::string render(const Entry& entry) const;

  std::vector<Source> sources_;
  std::vector<Entry> entries_;
};

}  // namespace shard8::deck
