// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "deck/diagnostics.hpp"
#include "deck/reading.hpp"

namespace shard8::deck {

/// Fills in the defaults that depend on other keys.
void resolve_defaults(Reading& reading);

/// What single keys cannot tell: divisibility, order, conflicts, with the numbers shown. An error
/// stands at a key that can mend it, one of the command line first, or at the group.
void check_together(Diagnostics& errors, const Reading& reading);

/// Files that the deck names must be there: as named from the working directory, or else from
/// `folder`, in which case the name in the Config is changed. Touches nothing but names.
void check_files(Diagnostics& errors, Reading& reading, const std::string& folder);

}  // namespace shard8::deck
