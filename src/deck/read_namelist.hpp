// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "deck/diagnostics.hpp"
#include "deck/raw_deck.hpp"

namespace shard8::deck {

/// Reads Fortran namelist groups, `&mesh shard = 2, tensor = 2 /`, closed by `/` or `&end`, `$` for
/// `&` as of old; names in any case, `!` comments, '..' and ".." with doubled quotes. Every key has
/// one value: arrays, repeats, null values, components and complex numbers are errors, as are
/// duplicates and anything but comments between groups. `source` is the number of the text in
/// `errors`.
RawDeck read_namelist(Diagnostics& errors, int source, std::string_view text);

}  // namespace shard8::deck
