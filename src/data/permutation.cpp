// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "data/permutation.hpp"

#include <bit>

#include "base/error.hpp"
#include "base/mix64.hpp"

namespace shard8::data {

Permutation::Permutation(std::int64_t size, std::uint64_t seed, std::uint64_t epoch)
    : size_(static_cast<std::uint64_t>(size)) {
  SHARD8_REQUIRE(size >= 1, "a permutation of {} elements", size);
  const int bits = std::bit_width(size_ - 1);
  low_bits_ = (bits + 1) / 2;
  low_mask_ = (std::uint64_t{1} << low_bits_) - 1;
  high_mask_ = (std::uint64_t{1} << (bits - low_bits_)) - 1;
  std::uint64_t key = base::mix64(base::mix64(seed) ^ epoch);
  for (auto& round : keys_) {
    key = base::mix64(key);
    round = key;
  }
}

std::uint64_t Permutation::shuffle(std::uint64_t x) const {
  std::uint64_t low = x & low_mask_;
  std::uint64_t high = x >> low_bits_;
  // Each half in turn is xored with a function of the other half. The same xor reverts that, so this is a bijection.
  for (int round = 0; round < kRounds; round += 2) {
    low ^= base::mix64(high ^ keys_[static_cast<std::size_t>(round)]) & low_mask_;
    high ^= base::mix64(low ^ keys_[static_cast<std::size_t>(round) + 1]) & high_mask_;
  }
  return (high << low_bits_) | low;
}

std::int64_t Permutation::operator()(std::int64_t i) const {
  SHARD8_REQUIRE(i >= 0 && static_cast<std::uint64_t>(i) < size_, "element {} of {}", i, size_);
  auto x = static_cast<std::uint64_t>(i);
  do {
    x = shuffle(x);
  } while (x >= size_);
  return static_cast<std::int64_t>(x);
}

}  // namespace shard8::data
