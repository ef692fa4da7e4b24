// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "tests/random/draw.hpp"

namespace shard8::test {

/// A small deck that writes checkpoints.
struct RoundDeck {
  std::string text;
  int ranks = 2;  ///< 2 to 4
  std::int64_t steps = 0, every = 1, keep = 1;
};

/// Draws mesh, architecture, number formats, recipe, schedule and how checkpoints are written.
RoundDeck draw_round_deck(Draw& draw);

}  // namespace shard8::test
