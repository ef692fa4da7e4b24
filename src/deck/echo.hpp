// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "deck/config.hpp"
#include "deck/fields.hpp"
#include "deck/reading.hpp"

namespace shard8::deck {

/// Where a key's value came from; fallback: the default.
enum class Origin { fallback, deck, command_line };

/// "default", "deck" or "command line".
std::string_view to_string(Origin origin);

/// A key, its value, and where the value came from.
struct Echo {
  std::string group;
  std::string key;
  std::variant<std::int64_t, std::uint64_t, double, bool, std::string> value;
  Origin origin = Origin::fallback;
};

/// The value as text, a string without quotes.
std::string value_text(const Echo& echo);

/// One Echo for each key, in the order of the table.
std::vector<Echo> make_echo(const Reading& reading);

/// The text of a deck with every key written out. It loads to this Config, which must come from load().
std::string to_yaml(const Config& config);
std::string to_namelist(const Config& config);

/// The text of a deck with the keys that `reading` was given.
std::string to_deck(const Reading& reading, Spelling spelling);

}  // namespace shard8::deck
