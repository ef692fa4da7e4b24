// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

namespace shard8::data {

/// The finaliser of splitmix64 (Steele, Lea and Flood, 2014): a bijection of 64-bit integers whose
/// every output bit depends on every input bit.
constexpr std::uint64_t mix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// A pseudo-random permutation of [0, size) that needs no memory: a Feistel network over the least
/// 2^b >= size, walked along its cycle until it is back inside (Black and Rogaway, 2002; fewer than
/// two rounds of the network on average). Integers alone: the same on every machine.
class Permutation {
 public:
  /// size >= 1.
  Permutation(std::int64_t size, std::uint64_t seed, std::uint64_t epoch);

  /// Where i of [0, size) goes.
  std::int64_t operator()(std::int64_t i) const;

 private:
  std::uint64_t shuffle(std::uint64_t x) const;

  static constexpr int kRounds = 8;

  std::uint64_t size_;
  int low_bits_ = 0;
  std::uint64_t low_mask_ = 0;
  std::uint64_t high_mask_ = 0;
  std::array<std::uint64_t, kRounds> keys_ = {};
};

}  // namespace shard8::data
