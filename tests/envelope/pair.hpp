// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "tests/random/random_deck.hpp"

namespace shard8::test {

/// Two right configurations of one training: they differ only in keys that may change the rounding.
struct Pair {
  std::int64_t deck = 0;  ///< number of the deck among those of the seed
  std::string kind;       ///< profile::rounding_of the deck
  deck::Config one, other;

  double parameters() const;  ///< of the model, about
  std::int64_t tokens() const { return one.data.batch * one.model.seq; }
};

/// Deck `number` of a seed as a training of `steps` steps without stops, checkpoints and traces. Its learning rate
/// decays eight times as slowly as drawn, so that it seldom stops to learn before the last step.
RandomDeck draw_training(std::uint64_t seed, std::int64_t number, std::int64_t steps,
                         const std::filesystem::path& folder, std::int64_t most_ranks);

/// The kind of a config (profile::rounding_of).
std::string kind_of(const deck::Config& config);

/// The training of draw_training() with another mesh, other micro-batches and another schedule. If no other mesh is
/// found for the deck, `other` is the training on one rank.
Pair draw_pair(std::uint64_t seed, std::int64_t number, std::int64_t steps, const std::filesystem::path& folder,
               std::int64_t most_ranks);

}  // namespace shard8::test
