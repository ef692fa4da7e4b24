// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace shard8::tests {

/// An 8-bit floating-point format written from its definition alone: a list of all magnitudes in double precision,
/// which encoding searches. Source: OCP 8-bit Floating Point Specification (OFP8) 1.0.
class Float8Reference {
 public:
  static Float8Reference e4m3() { return {4, 3, 448.0, false}; }
  static Float8Reference e5m2() { return {5, 2, 57344.0, true}; }

  double largest() const { return magnitudes_.back(); }
  /// The finite magnitudes in ascending order. The index is the code without its sign bit.
  const std::vector<double>& magnitudes() const { return magnitudes_; }

  double decode(std::uint8_t code) const {
    const std::size_t low = code & 0x7fu;
    const double magnitude = low < magnitudes_.size()                     ? magnitudes_[low]
                             : has_infinity_ && low == magnitudes_.size() ? HUGE_VAL
                                                                          : std::nan("");
    return std::copysign(magnitude, code >= 128 ? -1.0 : 1.0);
  }

  /// Rounds to nearest, ties to the even code, and saturates. NaN gives 0x7f. The result has the sign of x in every
  /// case.
  std::uint8_t encode(double x) const {
    const auto sign = static_cast<std::uint8_t>(std::signbit(x) ? 0x80 : 0);
    if (std::isnan(x)) return sign | 0x7f;
    const double m = std::min(std::abs(x), largest());
    const auto above =
        static_cast<std::size_t>(std::lower_bound(magnitudes_.begin(), magnitudes_.end(), m) - magnitudes_.begin());
    std::size_t code = above;
    if (magnitudes_[above] != m) {
      const double up = magnitudes_[above] - m, down = m - magnitudes_[above - 1];
      if (down < up || (down == up && above % 2 == 1)) code = above - 1;
    }
    return sign | static_cast<std::uint8_t>(code);
  }

 private:
  Float8Reference(int exponent_bits, int mantissa_bits, double largest, bool has_infinity)
      : has_infinity_(has_infinity) {
    const int bias = (1 << (exponent_bits - 1)) - 1;
    for (int code = 0; code < 128; ++code) {
      const int exponent = code >> mantissa_bits, mantissa = code & ((1 << mantissa_bits) - 1);
      const int hidden = exponent == 0 ? 0 : 1 << mantissa_bits;
      const double value = std::ldexp(hidden + mantissa, std::max(exponent, 1) - bias - mantissa_bits);
      if (value <= largest) magnitudes_.push_back(value);
    }
  }

  std::vector<double> magnitudes_;
  bool has_infinity_;
};

}  // namespace shard8::tests
