// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>

#include "base/arithmetic.hpp"

namespace shard8::test {

/// Random numbers for one key of one deck. They depend on the seed, the deck's number, the attempt and the key's name
/// alone, and are the same on every machine. So a deck can be drawn without the decks before it, and a new key changes
/// no other key's numbers.
class Draw {
 public:
  Draw(std::uint64_t seed, std::int64_t number, std::int64_t attempt, std::string_view key)
      : key_(base::mix64(base::mix64(base::mix64(seed) ^ static_cast<std::uint64_t>(number)) ^
                         static_cast<std::uint64_t>(attempt))) {
    for (const char c : key) key_ = base::mix64(key_ ^ static_cast<std::uint64_t>(c));
  }

  std::uint64_t bits() { return base::mix64(key_ ^ base::mix64(count_++)); }

  /// Uniform in [low, high], both included.
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(high - low + 1));
  }

  bool chance(double probability) { return uniform() < probability; }

  /// Uniform in [low, high], with three digits so that a printed deck is readable.
  double real(double low, double high) { return rounded(low + (high - low) * uniform()); }

  /// As real(), but the logarithm is uniform.
  double log_real(double low, double high) { return rounded(low * std::pow(high / low, uniform())); }

  template <class T, std::size_t n>
  T one_of(const T (&values)[n]) {
    return values[static_cast<std::size_t>(between(0, static_cast<std::int64_t>(n) - 1))];
  }
  template <class T>
  T one_of(std::span<const T> values) {
    return values[static_cast<std::size_t>(between(0, static_cast<std::int64_t>(values.size()) - 1))];
  }

 private:
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  static double rounded(double x) { return std::strtod(fmt::format("{:.3g}", x).c_str(), nullptr); }

  std::uint64_t key_;
  std::uint64_t count_ = 0;
};

}  // namespace shard8::test
