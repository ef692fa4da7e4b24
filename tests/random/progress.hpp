// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "tests/random/trial.hpp"

namespace shard8::test {

/// Results of the decks of one kind.
struct KindFigures {
  std::int64_t decks = 0;
  Spread largest;  ///< the largest difference from the training on one rank
};

/// The progress of a list of decks. It is kept in a file, so that a run that was interrupted can go on.
struct Progress {
  std::int64_t done = 0;  ///< decks 0 to done - 1 were trained
  Acceptance acceptance;
  std::vector<std::int64_t> failed;
  std::map<std::string, KindFigures> kinds;

  void add(std::int64_t number, const RandomDeck& deck, const Verdict& verdict);
  /// A table of the kinds: number of decks, largest differences, differences that are allowed.
  std::string table() const;
};

/// The progress of a run with this key (seed and program), or a new one if the file is of another run or missing.
Progress read_progress(const std::filesystem::path& file, const std::string& key);
/// Writes the file; it is replaced as a whole.
void write_progress(const std::filesystem::path& file, const std::string& key, const Progress& progress);

/// A difference between two equally right trainings of a deck, and the deck's number.
struct SpreadOfDeck {
  Spread spread;
  std::int64_t deck = 0;
};
/// By the deck's kind.
using SpreadFigures = std::map<std::string, std::vector<SpreadOfDeck>>;

/// Trains each deck on one rank, with other micro-batches, on two shard ranks and on two tensor ranks, as far as the
/// checks allow, and records the differences between these trainings. `number`: of the first deck. Collective.
void measure_spread(std::int64_t number, std::span<const RandomDeck> decks, Ranks& ranks, SpreadFigures& figures);

/// A table of the differences: how many, median, 90 %, 99 %, largest, and the number of the deck with the largest.
std::string to_text(const SpreadFigures& figures);

}  // namespace shard8::test
