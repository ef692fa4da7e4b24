// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>

#include "tests/random/trial.hpp"

namespace shard8::test {

struct Shrunk {
  RandomDeck deck;
  Verdict verdict;
  int trials = 0;
};

/// A smaller deck that fails in the same way. The search is greedy: keys are set to their defaults, then sizes are made
/// smaller, one at a time; a change stays if the deck still fails. `run` trains a deck. Collective if `run` is.
Shrunk shrink(const RandomDeck& deck, const Verdict& verdict, const std::filesystem::path& folder,
              const std::function<Verdict(const RandomDeck&)>& run);

}  // namespace shard8::test
