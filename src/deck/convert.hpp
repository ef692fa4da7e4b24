// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "deck/config.hpp"
#include "deck/field.hpp"
#include "deck/raw_deck.hpp"

namespace shard8::deck {

/// Why a value cannot be taken, and what can; no message: it was taken.
struct Problem {
  std::string message;
  std::string hint;
};

/// Sets the field's member to the value that the word means, if it is of the field's type and in
/// its bounds. `path` is the key's name in messages.
Problem convert(Config& config, const Field& field, std::string_view path, const Token& word, bool text_needs_quotes);

}  // namespace shard8::deck
