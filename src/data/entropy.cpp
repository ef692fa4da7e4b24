// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "data/entropy.hpp"

#include <cmath>

namespace shard8::data {

double entropy_nats(std::span<const std::uint64_t> counts) {
  double total = 0.0;
  double weighted = 0.0;
  for (const auto count : counts) {
    if (count == 0) continue;
    const auto c = static_cast<double>(count);
    total += c;
    weighted += c * std::log(c);
  }
  return total > 0.0 ? std::log(total) - weighted / total : 0.0;
}

double unigram_entropy(const Dataset& dataset) { return entropy_nats(dataset.histogram()); }

}  // namespace shard8::data
