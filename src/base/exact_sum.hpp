// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/arithmetic.hpp"

namespace shard8::base {

/// A sum of doubles without rounding, so the order of its terms changes no bit (Kulisch and Miranker 1981: the long
/// accumulator). The sum is a fixed-point number of the smallest subnormal's multiples, in words of 64 bits for digits
/// of 32 bits. The upper halves of the words take carries. Words of several sums, added as integers modulo 2^64, are
/// the words of the sum of all terms: ranks all-reduce them, and threads add to them atomically.
class ExactSum {
 public:
  /// Words 0 … kDigits − 1 are digits of weight 2^(32·i − 1074). The last one takes the carries of the largest terms.
  static constexpr int kDigits = 67;
  /// Words behind the digits: how many terms are NaN, +infinity and −infinity.
  enum : int { kNan = kDigits, kInfinity, kMinusInfinity, kWords };
  /// The most terms, or normalised sums, that may be added before normalise(); with more, a word could overflow.
  static constexpr std::int64_t kMostTerms = std::int64_t{1} << 30;

  /// What a term adds: amount[i] to word + i, unless it is 0. An amount is a two's complement of magnitude below 2^32.
  struct Term {
    int word = 0;
    std::uint64_t amount[3] = {};
  };
  static SHARD8_FUNCTION Term term(double x) {
    const auto bits = std::bit_cast<std::uint64_t>(x);
    const bool negative = (bits >> 63) != 0;
    const int exponent = static_cast<int>(bits >> 52 & 0x7ffu);
    std::uint64_t mantissa = bits & ((std::uint64_t{1} << 52) - 1);
    if (exponent == 0x7ff) {
      if (mantissa != 0) return {kNan, {1}};
      return {negative ? kMinusInfinity : kInfinity, {1}};
    }
    if (exponent > 0) mantissa |= std::uint64_t{1} << 52;
    const int place = exponent > 0 ? exponent - 1 : 0;  // of the mantissa's lowest bit
    const int shift = place % 32;
    const std::uint64_t low = mantissa << shift, high = shift == 0 ? 0 : mantissa >> (64 - shift);
    Term term{place / 32, {low & 0xffffffffu, low >> 32, high}};
    if (negative)
      for (std::uint64_t& amount : term.amount) amount = std::uint64_t{0} - amount;
    return term;
  }

  void add(double x) {
    const Term t = term(x);
    for (int i = 0; i < 3; ++i)
      if (t.amount[i] != 0) words_[static_cast<std::size_t>(t.word + i)] += t.amount[i];
  }

  /// The words, for example to be all-reduced: word i is added to word i of another sum.
  std::span<std::uint64_t, kWords> words() { return words_; }
  std::span<const std::uint64_t, kWords> words() const { return words_; }

  /// Brings digits but the last into [0, 2^32). The value stays. After the call kMostTerms more may be added.
  void normalise();
  /// The sum rounded once, to nearest, ties to even; infinity beyond the largest double. NaN if a term is NaN or
  /// infinities of both signs are among the terms. An exact zero is +0.
  double value() const;

 private:
  std::array<std::uint64_t, kWords> words_{};
};

}  // namespace shard8::base
