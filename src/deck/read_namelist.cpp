// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cctype>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "deck/raw_deck.hpp"

namespace shard8::deck {
namespace {

/// Reads the characters of a namelist. Every function that is named take or skip moves forward, never back.
class NamelistScanner {
 public:
  struct Mark {
    std::size_t offset = 0;
    int line = 1;
    int column = 1;
  };

  /// Lines end with line feeds.
  explicit NamelistScanner(std::string_view text) : text_(text) {}

  const Mark& mark() const { return at_; }
  std::size_t offset() const { return at_.offset; }
  bool at_end() const { return at_.offset >= text_.size(); }
  /// The next character, '\0' at the end.
  char peek(std::size_t ahead = 0) const;
  char take();

  bool at_quote() const { return peek() == '\'' || peek() == '"'; }
  bool at_group_mark() const { return peek() == '&' || peek() == '$'; }
  /// Whether the next character begins `/`, `&end`, `$end` or a lone `$`.
  bool at_group_end() const;
  /// Whether the next character begins `name =`, `name(` or `name%`.
  bool at_item() const;

  /// Skips blanks, line ends and comments.
  void skip_blanks();
  /// Skips to the end of the line.
  void skip_line();
  /// Skips at least one character, up to the next blank or separator. Returns how many.
  std::size_t skip_word();
  /// Skips to the next item or end of the group. Texts and comments are skipped as a whole.
  void skip_to_item();

  bool take_group_end();
  /// Takes letters, digits and underscores, not beginning with a digit. Returned in lower case; may be empty.
  std::string take_name();
  /// Takes a value without quotes; may be empty.
  std::string take_value();
  /// Takes a text in quotes. Nothing if the closing quote is not on this line.
  std::optional<std::string> take_string();

 private:
  std::string_view text_;
  Mark at_;
};

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n'; }
bool begins_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool in_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

bool ends_value(char c) { return is_blank(c) || std::string_view(",/!;=()'\"&$%").find(c) != std::string_view::npos; }

char NamelistScanner::peek(std::size_t ahead) const {
  const std::size_t i = at_.offset + ahead;
  return i < text_.size() ? text_[i] : '\0';
}

char NamelistScanner::take() {
  const char c = text_[at_.offset++];
  if (c == '\n') {
    ++at_.line;
    at_.column = 1;
  } else {
    ++at_.column;
  }
  return c;
}

bool NamelistScanner::at_group_end() const {
  if (peek() == '/') return true;
  if (!at_group_mark()) return false;
  if (peek() == '$' && !begins_name(peek(1))) return true;
  return lower(peek(1)) == 'e' && lower(peek(2)) == 'n' && lower(peek(3)) == 'd' && !in_name(peek(4));
}

bool NamelistScanner::at_item() const {
  NamelistScanner ahead = *this;
  if (ahead.take_name().empty()) return false;
  ahead.skip_blanks();
  return ahead.peek() == '=' || ahead.peek() == '(' || ahead.peek() == '%';
}

void NamelistScanner::skip_blanks() {
  while (!at_end()) {
    if (is_blank(peek())) {
      take();
    } else if (peek() == '!') {
      skip_line();
    } else {
      return;
    }
  }
}

void NamelistScanner::skip_line() {
  while (!at_end() && peek() != '\n') take();
}

std::size_t NamelistScanner::skip_word() {
  const std::size_t begin = at_.offset;
  if (!at_end()) take();
  while (!at_end() && !ends_value(peek())) take();
  return at_.offset - begin;
}

void NamelistScanner::skip_to_item() {
  while (true) {
    skip_blanks();
    if (at_end() || at_group_mark() || peek() == '/' || at_item()) return;
    if (at_quote()) {
      take_string();
    } else {
      skip_word();
    }
  }
}

bool NamelistScanner::take_group_end() {
  if (!at_group_end()) return false;
  const bool is_word = at_group_mark();  // &end or $end; a slash stands for itself
  take();
  if (is_word) take_name();
  return true;
}

std::string NamelistScanner::take_name() {
  std::string name;
  if (!begins_name(peek())) return name;
  while (in_name(peek())) name += lower(take());
  return name;
}

std::string NamelistScanner::take_value() {
  std::string value;
  while (!at_end() && !ends_value(peek())) value += take();
  return value;
}

std::optional<std::string> NamelistScanner::take_string() {
  const char quote = take();
  std::string value;
  while (!at_end() && peek() != '\n') {
    const char c = take();
    if (c != quote) {
      value += c;
    } else if (peek() == quote) {
      value += take();
    } else {
      return value;
    }
  }
  return std::nullopt;
}

constexpr const char* kItem = "expected 'name = value', or '/' to close the group";

class NamelistReader {
 public:
  NamelistReader(Diagnostics& errors, int source, std::string_view text) : build_(errors, source), in_(text) {}

  RawDeck read() {
    for (in_.skip_blanks(); !in_.at_end(); in_.skip_blanks()) {
      if (in_.at_group_mark()) {
        read_group();
      } else {
        skip_outside();
      }
    }
    RawDeck deck = build_.take();
    deck.text_needs_quotes = true;
    return deck;
  }

 private:
  // Adds one error for all text up to the next group.
  void skip_outside() {
    const auto here = in_.mark();
    in_.skip_line();
    build_.error(span(here, in_.offset() - here.offset), "text outside of groups",
                 "begin a comment with '!', a group with '&'");
    for (in_.skip_blanks(); !in_.at_end() && !in_.at_group_mark(); in_.skip_blanks()) {
      in_.skip_line();
    }
  }

  void read_group() {
    const auto here = in_.mark();
    in_.take();
    Token name = token(in_.take_name(), here);
    if (name.text == "end") {
      build_.error(name.where, "no group is open here", "a group begins with '&name'");
      return;
    }
    if (name.text.empty()) {
      build_.error(name.where, "a group's name should follow at once", "a group begins with '&name'");
      in_.skip_blanks();
      const auto there = in_.mark();
      name = token(in_.take_value(), there);
      if (name.text.empty()) return;
    }
    wanted_ = build_.group(name);
    while (true) {
      in_.skip_blanks();
      if (in_.at_end() || (in_.at_group_mark() && !in_.at_group_end())) {
        build_.error(name.where, fmt::format("group '{}', opened on line {}, is not closed", name.text, here.line),
                     in_.at_end() ? "end it with '/'"
                                  : fmt::format("end it with '/' before the next group, line {}", in_.mark().line));
        return;
      }
      if (in_.take_group_end()) return;
      read_item();
    }
  }

  // name = value [,]
  void read_item() {
    const auto here = in_.mark();
    const Token key = token(in_.take_name(), here);
    if (key.text.empty()) {
      const auto length = in_.skip_word();
      return give_up(span(here, length), "a name should stand here", kItem);
    }
    in_.skip_blanks();
    const bool fresh = wanted_ && build_.key(key);
    if (in_.peek() == '=') {
      in_.take();
      in_.skip_blanks();
      read_value(key, fresh);
    } else if (in_.peek() == '(') {
      reject(key, fresh, key.where, fmt::format("'{}' is given as an array", key.text));
    } else if (in_.peek() == '%') {
      reject(key, fresh, key.where, fmt::format("'{}' is given by components", key.text));
    } else {
      reject(key, fresh, key.where, fmt::format("no '=' after '{}'", key.text), kItem);
    }
  }

  void read_value(const Token& key, bool fresh) {
    const auto here = in_.mark();
    if (in_.at_item() || in_.at_end() || in_.at_group_mark() || in_.peek() == '/' || in_.peek() == ',') {
      if (fresh) build_.missing(key);
      if (in_.peek() == ',') in_.take();
      return;
    }
    if (in_.peek() == '(') {
      return reject(key, fresh, span(here, 1), fmt::format("'{}' is given a complex number", key.text));
    }
    Token value;
    if (in_.at_quote()) {
      const auto text = in_.take_string();
      value = {text.value_or(""), true, span(here, in_.offset() - here.offset)};
      if (!text) {
        return reject(key, fresh, value.where, "this text is not closed on its line",
                      "end it with the quote that it begins with; double a quote inside");
      }
    } else {
      value.text = in_.take_value();
      value.where = span(here, value.text.empty() ? in_.skip_word() : value.text.size());
      if (value.text.empty()) {
        return reject(key, fresh, value.where, fmt::format("'{}' has no value", key.text), kItem);
      }
      if (value.text.find('*') != std::string::npos) {
        return reject(key, fresh, value.where, fmt::format("'{}' is given a repeated value", key.text));
      }
    }
    if (fresh) build_.entry(key, value);
    end_item(key);
  }

  // Reads what follows a value: a comma or blanks, then the next item or the group's end.
  void end_item(const Token& key) {
    in_.skip_blanks();
    if (in_.peek() == ',') {
      in_.take();
      in_.skip_blanks();
    }
    if (in_.at_end() || in_.at_group_mark() || in_.peek() == '/' || in_.at_item()) return;
    const auto here = in_.mark();
    const char next = in_.peek();
    const auto length = in_.at_quote() ? 1 : in_.skip_word();
    if (next == ';') {
      return give_up(span(here, 1), "';' separates nothing", "use a comma or a new line");
    }
    give_up(span(here, length), fmt::format("'{}' has its value already", key.text),
            "a key has one value; a name needs '=' after it");
  }

  void reject(const Token& key, bool fresh, const Span& where, std::string message,
              const char* hint = "a key has one value") {
    if (fresh) {
      build_.rejected(key, where, std::move(message), hint);
      in_.skip_to_item();
    } else {
      give_up(where, std::move(message), hint);
    }
  }

  void give_up(const Span& where, std::string message, std::string hint) {
    build_.error(where, std::move(message), std::move(hint));
    in_.skip_to_item();
  }

  Span span(const NamelistScanner::Mark& at, std::size_t length) const {
    return build_.span(at.line, at.column, length);
  }

  Token token(std::string name, const NamelistScanner::Mark& at) const {
    return {std::move(name), false, span(at, in_.offset() - at.offset)};
  }

  RawBuilder build_;
  NamelistScanner in_;
  bool wanted_ = true;  // false inside a group whose name the deck had before
};

}  // namespace

RawDeck read_namelist(Diagnostics& errors, int source, std::string_view text) {
  const std::string lines = with_line_feeds(text);
  return NamelistReader(errors, source, lines).read();
}

}  // namespace shard8::deck
