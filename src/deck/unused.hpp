// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "deck/diagnostics.hpp"
#include "deck/reading.hpp"

namespace shard8::deck {

/// A warning for each key that is given, not with its default, and that nothing reads, as the others stand
/// ("fp8.margin" without recipe delayed). Of a deck without errors, its defaults filled in.
void warn_of_unused(Diagnostics& diagnostics, const Reading& reading);

}  // namespace shard8::deck
