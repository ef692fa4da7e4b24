// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "deck/read_overrides.hpp"

#include <fmt/format.h>

#include <set>
#include <string_view>

namespace shard8::deck {
namespace {

Token token(std::string_view text, int source, std::size_t offset) {
  const int length = text.empty() ? 1 : static_cast<int>(text.size());
  return {std::string(text), false, {source, 1, static_cast<int>(offset) + 1, length}};
}

}  // namespace

RawDeck read_overrides(Diagnostics& errors, std::span<const std::string> arguments) {
  RawDeck deck;
  std::set<std::string> seen;
  for (const std::string& argument : arguments) {
    const int source = errors.add_source({"command line:" + argument, {argument}, false});
    const std::string_view all = argument;
    const auto equals = all.find('=');
    const std::string_view path = all.substr(0, equals);
    const auto dot = path.find('.');
    if (equals == std::string_view::npos || dot == std::string_view::npos || dot == 0 || dot + 1 == path.size()) {
      errors.error(token(all, source, 0).where, "this changes no key of the deck", "expected group.key=value");
      continue;
    }
    if (!seen.insert(std::string(path)).second) {
      errors.error(token(path, source, 0).where, fmt::format("{} stands on the command line a second time", path));
      continue;
    }
    const Token key = token(path.substr(dot + 1), source, dot + 1);
    const Token value = token(all.substr(equals + 1), source, equals + 1);
    deck.groups.push_back({token(path.substr(0, dot), source, 0), {{key, value}}});
  }
  return deck;
}

}  // namespace shard8::deck
