// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

namespace shard8::data {

/// A pseudo-random permutation of [0, size) that needs no memory: a Feistel network on b bits, with the least b for
/// which 2^b >= size. A result outside [0, size) is put through the network once more, until one lies inside, on
/// average fewer than two passes in all. It computes with integers alone, so it is the same on every machine. Source:
/// Black and Rogaway, 2002.
class Permutation {
 public:
  /// A permutation for each (seed, epoch). Error(failed) unless size >= 1.
  Permutation(std::int64_t size, std::uint64_t seed, std::uint64_t epoch);

  /// The image of i. Error(failed) unless i is in [0, size).
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
