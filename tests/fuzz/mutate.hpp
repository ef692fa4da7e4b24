// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "tests/fuzz/fuzz.hpp"

namespace shard8::fuzz {

/// Changes inputs. It flips bits, changes bytes, inserts words of the dictionary and stretches of other inputs,
/// deletes, duplicates and moves stretches, repeats one stretch many times (for depth), and sets numbers to their
/// limits.
class Mutator {
 public:
  Mutator(const std::vector<std::string>& corpus, const std::vector<std::string>& words)
      : corpus_(corpus), words_(words) {}

  /// An input of the corpus after one to eight changes; at most 64 KiB.
  std::string make(Random& random) const;

 private:
  void change(Random& random, std::string& text) const;

  const std::vector<std::string>& corpus_;
  const std::vector<std::string>& words_;
};

}  // namespace shard8::fuzz
