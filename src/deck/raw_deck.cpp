// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "deck/raw_deck.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "deck/fields.hpp"

namespace shard8::deck {
namespace {

Token token(std::string_view text, int source, std::size_t offset) {
  const int length = text.empty() ? 1 : static_cast<int>(text.size());
  return {std::string(text), false, {source, 1, static_cast<int>(offset) + 1, length}};
}

/// ", did you mean 'mesh.shard=4'?": the keys of this name, or of the nearest one. Empty if there is none.
std::string with_groups(std::string_view key, std::string_view value) {
  std::vector<std::string_view> keys;
  for (const Group& group : all_groups())
    for (const Field& field : group.fields) keys.push_back(field.key);
  const std::string_view near = nearest(key, keys);
  std::string text;
  for (const Group& group : all_groups())
    if (!near.empty() && find_field(group, near) != nullptr)
      text += fmt::format("{}'{}.{}{}'", text.empty() ? ", did you mean " : " or ", group.name, near, value);
  return text.empty() ? text : text + "?";
}

}  // namespace

bool RawBuilder::group(const Token& name) {
  const auto [it, fresh] = group_lines_.emplace(name.text, name.where.line);
  if (!fresh) {
    error(name.where, fmt::format("group '{}' stands here a second time", name.text),
          fmt::format("the first is on line {}", it->second));
    return false;
  }
  key_lines_.clear();
  deck_.groups.push_back({name, {}});
  return true;
}

bool RawBuilder::key(const Token& name) {
  const auto [it, fresh] = key_lines_.emplace(name.text, name.where.line);
  if (!fresh) {
    error(name.where, fmt::format("key '{}' stands here a second time", name.text),
          fmt::format("the first is on line {}", it->second));
  }
  return fresh;
}

void RawBuilder::entry(const Token& key, const Token& value) { deck_.groups.back().entries.push_back({key, value}); }

void RawBuilder::missing(const Token& key) {
  deck_.groups.back().entries.push_back({key, {{}, false, key.where}, RawEntry::State::missing});
}

void RawBuilder::rejected(const Token& key, const Span& where, std::string message, std::string hint) {
  deck_.groups.back().entries.push_back({key, {{}, false, where}, RawEntry::State::rejected});
  error(where, std::move(message), std::move(hint));
}

void RawBuilder::error(const Span& where, std::string message, std::string hint) {
  errors_.error(where, std::move(message), std::move(hint));
}

Span RawBuilder::span(int line, int column, std::size_t length) const {
  Span where{source_, line, column, 1};
  const std::size_t rest = rest_of_line(where).size();
  where.length = static_cast<int>(std::clamp<std::size_t>(length, 1, std::max<std::size_t>(rest, 1)));
  return where;
}

std::string_view RawBuilder::rest_of_line(const Span& where) const {
  const auto& lines = errors_.source(source_).lines;
  const auto row = static_cast<std::size_t>(where.line - 1);
  const auto column = static_cast<std::size_t>(where.column - 1);
  if (row >= lines.size() || column >= lines[row].size()) return {};
  return std::string_view(lines[row]).substr(column);
}

std::string unknown_name(Diagnostics& errors, const Token& name, const std::string& what,
                         std::span<const std::string_view> names, std::string_view all, const std::string& home) {
  const std::string near(nearest(name.text, names));
  std::string hint = home;
  if (!near.empty())
    hint = fmt::format("did you mean '{}'?", near);
  else if (hint.empty())
    hint = fmt::format("{} are {}", all, list_of(names, "and"));
  errors.error(name.where, what, hint);
  return near;
}

RawDeck read_overrides(Diagnostics& errors, std::span<const std::string> arguments) {
  RawDeck deck;
  for (const std::string& argument : arguments) {
    const int source = errors.add_source({"command line:" + base::quotable(argument), {argument}, false});
    const std::string_view all = argument;
    const auto equals = all.find('=');
    const std::string_view path = all.substr(0, equals);
    const auto dot = path.find('.');
    if (equals == std::string_view::npos || dot == std::string_view::npos || dot == 0 || dot + 1 == path.size()) {
      const bool no_group = equals != std::string_view::npos && dot == std::string_view::npos;
      errors.error(token(all, source, 0).where, "this changes no key of the deck",
                   "expected group.key=value" + (no_group ? with_groups(path, all.substr(equals)) : ""));
      continue;
    }
    std::erase_if(deck.groups, [&](const RawGroup& earlier) {
      return earlier.name.text == path.substr(0, dot) && earlier.entries[0].key.text == path.substr(dot + 1);
    });
    const Token key = token(path.substr(dot + 1), source, dot + 1);
    const Token value = token(all.substr(equals + 1), source, equals + 1);
    deck.groups.push_back({token(path.substr(0, dot), source, 0), {{key, value}}});
  }
  return deck;
}

namespace {

constexpr std::size_t kMostErrors = 50;
constexpr std::size_t kMostKept = 10000;  // chosen: bounds the memory of a deck with an error in every word
constexpr std::size_t kWidest = 200;      // characters that are shown of a line before and after a place; chosen

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

// Blanks that are as wide on a terminal as the text. Tabs stay tabs; a UTF-8 character is one column.
std::string blank_like(std::string_view text) {
  std::string blank;
  for (const char c : text) {
    if (!continues_character(c)) blank += c == '\t' ? '\t' : ' ';
  }
  return blank;
}

}  // namespace

int Diagnostics::add_source(Source source) {
  sources_.push_back(std::move(source));
  return static_cast<int>(sources_.size()) - 1;
}

Diagnostics::Entry Diagnostics::entry_of(Span where, const std::string& message, const std::string& hint) {
  return {where, base::printable(base::shortened(message, 2 * kWidest)), base::printable(hint)};
}

void Diagnostics::error(Span where, const std::string& message, const std::string& hint) {
  if (entries_.size() < kMostKept) {
    entries_.push_back(entry_of(where, message, hint));
  } else {
    ++not_kept_;
  }
}

void Diagnostics::warning(Span where, const std::string& message, const std::string& hint) {
  warnings_.push_back(entry_of(where, message, hint));
}

std::vector<std::string> Diagnostics::warnings() const {
  std::vector<std::string> texts;
  for (const Entry& entry : warnings_) texts.push_back(render(entry, "warning"));
  return texts;
}

std::string Diagnostics::render(const Entry& entry, std::string_view kind) const {
  const Span& at = entry.where;
  const Source& from = source(at.source);
  std::string out = from.numbered ? fmt::format("{}:{}:{}", from.name, at.line, at.column) : from.name;
  out += fmt::format(": {}: {}", kind, entry.message);
  const auto row = static_cast<std::size_t>(at.line - 1);
  if (at.length == 0 || row >= from.lines.size()) {
    return out + (entry.hint.empty() ? "" : "; " + entry.hint) + '\n';
  }
  // Only the part of the line that is shown is copied: a line may be as long as the deck and have an error at each
  // word.
  auto before = std::min(static_cast<std::size_t>(at.column - 1), from.lines[row].size());
  std::string line;
  std::size_t first = 0;
  if (before > kWidest) {
    line = "...";
    first = before - kWidest;
    before = kWidest + 3;
  }
  line = base::printable(base::shortened(line.append(from.lines[row], first, 2 * kWidest + 1), 2 * kWidest));
  std::string caret = blank_like(std::string_view(line).substr(before, static_cast<std::size_t>(at.length)));
  caret.assign(std::max<std::size_t>(caret.size(), 1), '~');
  caret[0] = '^';
  out += fmt::format("\n{:>5} | {}\n      | {}{}", from.numbered ? std::to_string(at.line) : "", line,
                     blank_like(std::string_view(line).substr(0, before)), caret);
  return out + (entry.hint.empty() ? "" : "  " + entry.hint) + '\n';
}

std::string Diagnostics::text() const {
  std::vector<Entry> sorted = entries_;
  const auto key = [](const Entry& e) { return std::tie(e.where.source, e.where.line, e.where.column); };
  std::stable_sort(sorted.begin(), sorted.end(), [&](const Entry& a, const Entry& b) { return key(a) < key(b); });
  const auto whole = [](const Entry* e) {
    return std::tie(e->where.source, e->where.line, e->where.column, e->where.length, e->message, e->hint);
  };
  const auto before = [&](const Entry* a, const Entry* b) { return whole(a) < whole(b); };
  std::set<const Entry*, decltype(before)> seen(before);
  std::string all;
  for (const Entry& entry : sorted) {
    if (seen.insert(&entry).second && seen.size() <= kMostErrors) all += render(entry, "error");
  }
  if (const auto more = seen.size() - std::min(seen.size(), kMostErrors) + not_kept_; more > 0) {
    all += fmt::format("and {} more errors\n", more);
  }
  if (!all.empty()) all.pop_back();
  return all;
}

void Diagnostics::throw_if_any() const {
  if (!empty()) throw base::Error(base::ExitCode::deck, text());
}

std::string with_line_feeds(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\r')
      out += text[i];
    else if (text.substr(i + 1, 1) != "\n")
      out += '\n';
  }
  return out;
}

std::vector<std::string> split_lines(std::string_view text) {
  const std::string lines_of_text = with_line_feeds(text);
  std::string_view rest = lines_of_text;
  std::vector<std::string> lines;
  while (!rest.empty()) {
    const auto end = rest.find('\n');
    lines.emplace_back(rest.substr(0, end));
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
  return lines;
}

}  // namespace shard8::deck
