// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "data/entropy.hpp"

#include <cmath>

namespace shard8::data {

double entropy_nats(std::span<const std::uint64_t> counts) {
  // The two terms nearly cancel where many tokens are about as frequent: sum in long double.
  long double total = 0.0L;
  long double weighted = 0.0L;
  for (const auto count : counts) {
    if (count == 0) continue;
    const auto c = static_cast<long double>(count);
    total += c;
    weighted += c * std::log(c);
  }
  return total > 0.0L ? static_cast<double>(std::log(total) - weighted / total) : 0.0;
}

double unigram_entropy(const Dataset& dataset) { return entropy_nats(dataset.histogram()); }

}  // namespace shard8::data
