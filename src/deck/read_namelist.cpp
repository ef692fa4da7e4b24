// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "deck/read_namelist.hpp"

#include <fmt/format.h>

#include "deck/namelist_scanner.hpp"
#include "deck/raw_build.hpp"

namespace shard8::deck {
namespace {

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
  // One error for all up to the next group.
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

  // After the value: a comma or blanks, then the next item or the group's end.
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
  bool wanted_ = true;  // false inside a second group of a name
};

}  // namespace

RawDeck read_namelist(Diagnostics& errors, int source, std::string_view text) {
  return NamelistReader(errors, source, text).read();
}

}  // namespace shard8::deck
