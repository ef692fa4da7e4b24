// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "deck/raw_build.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace shard8::deck {

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

std::string RawBuilder::rest_of_line(const Span& where) const {
  const auto& lines = errors_.source(source_).lines;
  const auto row = static_cast<std::size_t>(where.line - 1);
  const auto column = static_cast<std::size_t>(where.column - 1);
  if (row >= lines.size() || column >= lines[row].size()) return {};
  return lines[row].substr(column);
}

}  // namespace shard8::deck
