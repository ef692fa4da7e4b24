// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace shard8::deck {

/// The page docs/deck.md.
std::string markdown_page();

}  // namespace shard8::deck
