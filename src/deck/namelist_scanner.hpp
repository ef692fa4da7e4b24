// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace shard8::deck {

/// Reads the characters of a namelist; always moves forward, whatever the text.
class NamelistScanner {
 public:
  struct Mark {
    std::size_t offset = 0;
    int line = 1;
    int column = 1;
  };

  explicit NamelistScanner(std::string_view text) : text_(text) {}

  const Mark& mark() const { return at_; }
  std::size_t offset() const { return at_.offset; }
  bool at_end() const { return at_.offset >= text_.size(); }
  /// The next character, '\0' at the end.
  char peek(std::size_t ahead = 0) const;
  char take();

  bool at_quote() const { return peek() == '\'' || peek() == '"'; }
  bool at_group_mark() const { return peek() == '&' || peek() == '$'; }
  /// At `/`, `&end`, `$end` or a lone `$`.
  bool at_group_end() const;
  /// At `name =`, `name(` or `name%`.
  bool at_item() const;

  /// Over blanks, line ends and comments.
  void skip_blanks();
  /// To the end of the line.
  void skip_line();
  /// Over at least one character, to the next blank or separator; returns how many.
  std::size_t skip_word();
  /// To the next item or end of the group, over texts and comments.
  void skip_to_item();

  bool take_group_end();
  /// Letters, digits and underscores, not beginning with a digit; lower case; may be empty.
  std::string take_name();
  /// A value without quotes; may be empty.
  std::string take_value();
  /// From a quote to the one that closes it; nothing if that is not on this line.
  std::optional<std::string> take_string();

 private:
  std::string_view text_;
  Mark at_;
};

}  // namespace shard8::deck
