// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "deck/raw_deck.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

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

}  // namespace shard8::deck
