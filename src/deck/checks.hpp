// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "deck/config.hpp"
#include "deck/diagnostics.hpp"
#include "deck/reading.hpp"

namespace shard8::deck {

class Checker;

/// Fills in the defaults that depend on other keys.
void resolve_defaults(Reading& reading);

/// What single keys cannot tell: divisibility, order, conflicts, with the numbers shown. An error
/// stands at a key that can mend it, one of the command line first, or at the group.
void check_together(Diagnostics& errors, const Reading& reading);

/// The part of it that is about FP8: what goes with the recipe, and blocks that do not fit.
void check_fp8(const Checker& check, const Config& config);

/// The format that a recipe has; automatic for none.
Fp8Format format_of(Recipe recipe);

/// Where the size of a micro-batch comes from if not from data.micro_batch, in parentheses after a blank.
std::string micro_batch_note(const Config& config);

/// Files that the deck names must be there: as named from the working directory, or else from the folder of the file
/// `deck`, in which case the name in the Config is changed. Files of the output must be none of them, nor the deck.
/// Touches nothing but names.
void check_files(Diagnostics& errors, Reading& reading, const std::string& deck);

}  // namespace shard8::deck
