// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "base/exact_sum.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace shard8::base {
namespace {

using Digits = std::span<std::uint64_t, ExactSum::kDigits>;

void carry(Digits digits) {
  std::int64_t carried = 0;
  for (std::uint64_t& digit : digits.first<ExactSum::kDigits - 1>()) {
    const std::int64_t all = static_cast<std::int64_t>(digit) + carried;
    digit = static_cast<std::uint64_t>(all) & 0xffffffffu;
    carried = all >> 32;
  }
  digits.back() += static_cast<std::uint64_t>(carried);
}

/// The bit of weight 2^(place − 1074) of normalised digits.
std::uint64_t bit(Digits digits, int place) { return digits[static_cast<std::size_t>(place / 32)] >> place % 32 & 1u; }

/// Normalised digits that are not negative, rounded to nearest, ties to even.
double rounded(Digits digits) {
  const auto top = std::find_if(digits.rbegin(), digits.rend(), [](std::uint64_t digit) { return digit != 0; });
  if (top == digits.rend()) return 0;
  if (top == digits.rbegin()) return std::numeric_limits<double>::infinity();  // at least 2^1038
  constexpr int kMantissa = std::numeric_limits<double>::digits;
  const int highest = 32 * static_cast<int>(digits.rend() - top - 1) + static_cast<int>(std::bit_width(*top)) - 1;
  const int lowest = std::max(highest - kMantissa + 1, 0);
  std::uint64_t mantissa = 0;
  for (int place = highest; place >= lowest; --place) mantissa = 2 * mantissa + bit(digits, place);
  if (lowest > 0 && bit(digits, lowest - 1) != 0) {
    bool more = (mantissa & 1u) != 0;
    for (int place = lowest - 2; place >= 0 && !more; --place) more = bit(digits, place) != 0;
    if (more) ++mantissa;
  }
  return std::ldexp(static_cast<double>(mantissa), lowest - 1074);
}

}  // namespace

void ExactSum::normalise() { carry(std::span(words_).first<kDigits>()); }

double ExactSum::value() const {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const auto has = [this](int word) { return words_[static_cast<std::size_t>(word)] != 0; };
  if (has(kNan) || (has(kInfinity) && has(kMinusInfinity))) return std::numeric_limits<double>::quiet_NaN();
  if (has(kInfinity)) return kInf;
  if (has(kMinusInfinity)) return -kInf;
  ExactSum sum = *this;
  sum.normalise();
  const Digits digits = std::span(sum.words_).first<kDigits>();
  if (static_cast<std::int64_t>(digits.back()) >= 0) return rounded(digits);
  for (std::uint64_t& digit : digits) digit = std::uint64_t{0} - digit;
  carry(digits);
  return -rounded(digits);
}

}  // namespace shard8::base
