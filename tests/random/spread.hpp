// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "tests/random/trial.hpp"

namespace shard8::test {

/// Differences between equally right trainings of a deck, by the deck's kind.
using SpreadFigures = std::map<std::string, std::vector<Spread>>;

/// Trains each deck on one rank, with other micro-batches, on two shard ranks and on two tensor ranks, as far as the
/// checks allow, and records the differences between these trainings. Collective.
void measure_spread(std::span<const RandomDeck> decks, Ranks& ranks, SpreadFigures& figures);

/// A table of the differences: number, median, 90 %, 99 %, largest.
std::string to_text(const SpreadFigures& figures);

}  // namespace shard8::test
