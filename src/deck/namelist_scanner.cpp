// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "deck/namelist_scanner.hpp"

#include <cctype>

namespace shard8::deck {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool begins_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool in_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

bool ends_value(char c) { return is_blank(c) || std::string_view(",/!;=()'\"&$%").find(c) != std::string_view::npos; }

}  // namespace

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
  take();
  take_name();
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
  while (!at_end() && peek() != '\n' && peek() != '\r') {
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

}  // namespace shard8::deck
