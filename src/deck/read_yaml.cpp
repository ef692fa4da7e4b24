// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "deck/raw_deck.hpp"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <sstream>
#include <string_view>

namespace shard8::deck {
namespace {

constexpr const char* kNoAnchors = "anchors and aliases have no place in a deck";
constexpr const char* kNoTags = "tags have no place in a deck";
constexpr const char* kShape = "a deck is groups of keys: 'group:', then lines '  key: value'";

// The deepest collections that are read; deeper ones end the reading. Chosen: a deck has two levels.
constexpr int kDeepest = 16;

/// Thrown to leave the parser when collections are nested too deep. The error has been added before.
struct TooDeep {};

// Follows the parser's events: document > groups > keys > scalars. Anything else is reported where it begins
// and skipped.
class DeckEvents : public YAML::EventHandler {
 public:
  DeckEvents(Diagnostics& errors, int source) : build_(errors, source) {}

  RawDeck take() { return build_.take(); }
  bool stopped() const { return documents_ > 1; }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ == 2) {
      build_.error(span(mark, 3), "a deck is one YAML document, here a second one begins",
                   "remove the '---' or '...' before it");
    }
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (!wanted(mark, "", anchor) || depth_ == 0) return;
    if (key_next_) build_.error(span(mark, 1), "a key is missing before ':'", kShape);
    const bool value = pass_over();
    if (value && depth_ == 2 && !bad_key_) build_.missing(key_);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    if (skipped_ > 0 || stopped()) return;
    const bool value = pass_over();
    if (value && depth_ == 2 && !bad_key_) {
      build_.rejected(key_, span(mark, 1), kNoAnchors, "write the value");
    } else {
      build_.error(span(mark, 1), kNoAnchors, "write the value");
    }
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    if (skipped_ > 0 || stopped()) return;
    if (const Refusal refusal = refusal_of(mark, tag, anchor); refusal.message != nullptr) {
      return reject_scalar(span(mark, 1), refusal);
    }
    Token token{value, tag == "!", span(mark, value.size())};
    const bool one_line = measure(token);
    if (depth_ == 0) {
      reject_root(token.where, "a single value");
    } else if (key_next_ && !one_line) {
      pass_over();
      build_.error(token.where, "this name does not end on its line", "close the quotes");
    } else if (key_next_) {
      on_key(token);
    } else {
      pass_over();
      if (bad_key_) return;
      if (depth_ == 1) {
        build_.group_has_value();
      } else if (!one_line) {
        build_.rejected(key_, token.where, fmt::format("the value of '{}' does not end on its line", key_.text),
                        "write it on one, close quotes; lines indented more than a key go on "
                        "with its value");
      } else {
        build_.entry(key_, token);
      }
    }
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    enter(mark);
    if (wanted(mark, tag, anchor)) reject_collection(mark, "a list");
    ++skipped_;
  }
  void OnSequenceEnd() override {
    --open_;
    --skipped_;
  }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    enter(mark);
    if (wanted(mark, tag, anchor)) {
      if (depth_ == 0 || (depth_ == 1 && !key_next_ && !bad_key_)) {
        ++depth_;
        key_next_ = true;
        return;
      }
      reject_collection(mark, "a mapping");
    }
    ++skipped_;
  }
  void OnMapEnd() override {
    --open_;
    if (skipped_ > 0) {
      --skipped_;
      return;
    }
    --depth_;
    key_next_ = true;
  }

 private:
  // Counts a collection that opens. The parser recurses into each one, so a bound on the depth keeps its stack small.
  void enter(const YAML::Mark& mark) {
    if (++open_ <= kDeepest) return;
    build_.error(span(mark, 1), fmt::format("lists and mappings are nested more than {} deep here", kDeepest), kShape);
    build_.incomplete();
    throw TooDeep();
  }

  // Whether the node is to be read: false inside a rejected collection. Reports an anchor or a tag of the node.
  bool wanted(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    if (skipped_ > 0 || stopped()) return false;
    if (const Refusal refusal = refusal_of(mark, tag, anchor); refusal.message != nullptr) {
      build_.error(span(mark, 1), refusal.message, refusal.hint);
    }
    return true;
  }

  struct Refusal {
    const char* message = nullptr;  // null: the node has neither an anchor nor a tag
    const char* hint = nullptr;
  };

  // The parser gives the tag '!' to texts in quotes, too, and tells no tag of a null. So the source counts.
  Refusal refusal_of(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) const {
    if (anchor != YAML::NullAnchor) return {kNoAnchors, "write the value"};
    const bool named = !tag.empty() && tag != "?" && tag != "!";
    if (named || build_.rest_of_line(span(mark, 1)).starts_with('!')) return {kNoTags, "write the value alone"};
    return {};
  }

  // Skips a scalar with an anchor or a tag, which stands between the mark and the text.
  void reject_scalar(const Span& where, const Refusal& refusal) {
    const bool root = depth_ == 0, value = root || pass_over();
    if (value && depth_ == 2 && !bad_key_) return build_.rejected(key_, where, refusal.message, refusal.hint);
    build_.error(where, refusal.message, refusal.hint);
    if (root) reject_root(where, "a single value");
    if (!value) build_.incomplete();  // it may be a required key
    if (value && depth_ == 1 && !bad_key_) build_.group_has_value();
  }

  void reject_root(const Span& where, const char* what) {
    build_.error(where, fmt::format("this is {}", what), kShape);
    build_.incomplete();
  }

  void on_key(const Token& token) {
    key_ = token;
    key_next_ = false;
    bad_key_ = true;
    if (token.text == "<<") {
      build_.error(token.where, "merge keys have no place in a deck", "write the keys");
    } else if (depth_ == 1) {
      bad_key_ = !build_.group(token);
    } else {
      bad_key_ = !build_.key(token);
    }
  }

  // Skips a node: a key (returns false; its value is skipped too) or a value (returns true).
  bool pass_over() {
    const bool value = !key_next_;
    if (!value) bad_key_ = true;
    key_next_ = value;
    return value;
  }

  void reject_collection(const YAML::Mark& mark, const char* what) {
    if (depth_ == 0) return reject_root(span(mark, 1), what);
    if (key_next_) build_.error(span(mark, 1), fmt::format("{} cannot be a name", what), kShape);
    if (!pass_over() || bad_key_) return;
    if (depth_ == 2) {
      build_.rejected(key_, key_.where, fmt::format("key '{}' holds {}", key_.text, what), "a key has one value");
    } else {
      build_.error(key_.where, fmt::format("group '{}' holds {}", key_.text, what), kShape);
    }
  }

  Span span(const YAML::Mark& mark, std::size_t length) const {
    return build_.span(mark.line + 1, mark.column + 1, length);
  }

  // Sets the length of a token in quotes. Returns false if the token does not end on its line; it may then contain the
  // lines that follow.
  bool measure(Token& token) {
    const std::string_view rest = build_.rest_of_line(token.where);
    bool whole = rest.compare(0, token.text.size(), token.text) == 0;
    if (token.quoted) {
      const std::size_t end = closing_quote(rest);
      whole = end != std::string_view::npos;
      token.where.length = static_cast<int>(whole ? end + 1 : std::max<std::size_t>(rest.size(), 1));
      if (!whole) build_.incomplete();
    }
    return whole;
  }

  // The index of the quote that closes the text; npos if there is none, and for a text that begins with '|' or '>'.
  static std::size_t closing_quote(std::string_view text) {
    const char quote = text.empty() ? '\0' : text[0];
    if (quote != '"' && quote != '\'') return std::string_view::npos;
    for (std::size_t i = 1; i < text.size(); ++i) {
      const bool doubled = quote == '\'' && text.compare(i, 2, "''") == 0;
      if (doubled || (quote == '"' && text[i] == '\\')) {
        ++i;
      } else if (text[i] == quote) {
        return i;
      }
    }
    return std::string_view::npos;
  }

  RawBuilder build_;
  int documents_ = 0;
  int depth_ = 0;    // open maps that a deck may have: its own and that of a group
  int skipped_ = 0;  // open collections that a deck may not have
  int open_ = 0;     // all open collections
  bool key_next_ = true;
  bool bad_key_ = false;  // the value that follows is skipped
  Token key_;
};

// YAML forbids tabs in indentation. The parser's own message depends on where the tab is.
bool indented_by_tab(Diagnostics& errors, int source) {
  bool any = false;
  const auto& lines = errors.source(source).lines;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto text = lines[i].find_first_not_of(" \t");
    if (text == std::string::npos || lines[i][text] == '#') continue;
    const auto tab = lines[i].find('\t');
    if (tab >= text) continue;
    errors.error({source, static_cast<int>(i) + 1, static_cast<int>(tab) + 1, 1}, "a tab indents this line",
                 "use spaces");
    any = true;
  }
  return any;
}

// Adds an error for each directive, which the parser passes over, wherever it stands. A version of YAML that is read
// may be named before the document. No line of a deck begins with '%' otherwise.
bool has_directives(Diagnostics& errors, int source) {
  bool any = false, before = true;
  const auto& lines = errors.source(source).lines;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string& line = lines[i];
    const auto begin = line.find_first_not_of(" \t");
    if (begin == std::string::npos || line[begin] == '#') continue;
    if (line[0] != '%') {
      before = false;
      continue;
    }
    const std::string name = line.substr(0, line.find_first_of(" \t"));
    const auto value = line.find_first_not_of(" \t", name.size());
    const std::string version =
        value == std::string::npos ? "" : line.substr(value, line.find_first_of(" \t", value) - value);
    const bool known = version == "1.1" || version == "1.2";
    if (before && name == "%YAML" && known) continue;
    errors.error({source, static_cast<int>(i) + 1, 1, static_cast<int>(line.size())},
                 name == "%YAML" && !known ? fmt::format("a deck is YAML 1.1 or 1.2, and not '{}'", version)
                                           : fmt::format("the directive '{}' has no place in a deck", name),
                 "take the line out");
    any = true;
  }
  return any;
}

// Adds an error if the line above line `at` (from 0), blank lines and comments left out, is one word: a group whose
// colon is missing. The parser stops at the keys below it.
bool name_without_colon(Diagnostics& errors, int source, int at) {
  const auto& lines = errors.source(source).lines;
  for (int i = std::min(at, static_cast<int>(lines.size())) - 1; i >= 0; --i) {
    const std::string& line = lines[static_cast<std::size_t>(i)];
    const auto begin = line.find_first_not_of(' ');
    if (begin == std::string::npos || line[begin] == '#') continue;
    const auto end = std::min(line.find_first_not_of("abcdefghijklmnopqrstuvwxyz_0123456789", begin), line.size());
    const auto rest = line.find_first_not_of(' ', end);
    if (end == begin || (rest != std::string::npos && line[rest] != '#')) return false;
    const std::string name = line.substr(begin, end - begin);
    errors.error({source, i + 1, static_cast<int>(begin) + 1, static_cast<int>(name.size())},
                 fmt::format("a colon is missing behind '{}'", name), fmt::format("write '{}:'", name));
    return true;
  }
  return false;
}

}  // namespace

RawDeck read_yaml(Diagnostics& errors, int source, const std::string& text) {
  DeckEvents events(errors, source);
  const bool tabs = indented_by_tab(errors, source), directives = has_directives(errors, source);
  bool complete = !tabs && !directives;
  if (complete) {
    try {
      std::istringstream stream(with_line_feeds(text));
      YAML::Parser parser(stream);
      while (!events.stopped() && parser.HandleNextDocument(events)) {
      }
    } catch (const TooDeep&) {
      complete = false;
    } catch (const YAML::Exception& e) {
      const bool placed = !e.mark.is_null();
      if (!placed || !name_without_colon(errors, source, e.mark.line))
        errors.error({source, placed ? e.mark.line + 1 : 1, placed ? e.mark.column + 1 : 1, 1},
                     fmt::format("not valid YAML: {}", e.msg));
      complete = false;
    }
  }
  RawDeck deck = events.take();
  deck.complete = deck.complete && complete && !events.stopped();
  return deck;
}

}  // namespace shard8::deck
