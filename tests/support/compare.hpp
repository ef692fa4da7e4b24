// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <iomanip>
#include <span>
#include <sstream>
#include <string>
#include <vector>

namespace shard8::tests {

/// The value with twelve digits: enough to tell any two fp32 values apart, and most doubles.
template <class T>
std::string digits(T value) {
  std::ostringstream text;
  text << std::setprecision(12) << static_cast<double>(value);
  return text.str();
}

/// Allows |got − want| ≤ absolute + relative·|want|, element by element.
struct Tolerance {
  double relative = 0, absolute = 0;
};

/// Whether all elements are within the tolerance. A failure names the element with the largest error relative to its
/// tolerance, both values, and how many elements are out of tolerance. NaN is close to nothing, not even to NaN.
template <class Got, class Want>
::testing::AssertionResult all_close(std::span<const Got> got, std::span<const Want> want, Tolerance tolerance) {
  if (got.size() != want.size()) {
    return ::testing::AssertionFailure() << got.size() << " elements, " << want.size() << " expected";
  }
  double worst = 0;
  std::size_t at = 0, wrong = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const auto g = static_cast<double>(got[i]), w = static_cast<double>(want[i]);
    const double allowed = tolerance.absolute + tolerance.relative * std::abs(w);
    const double error = std::abs(g - w);
    if (error <= allowed) continue;
    ++wrong;
    const double excess = std::isnan(error) ? HUGE_VAL : error / (allowed > 0 ? allowed : 1e-300);
    if (wrong == 1 || excess > worst) {
      worst = excess;
      at = i;
    }
  }
  if (wrong == 0) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << wrong << " of " << got.size() << " elements out of tolerance (relative "
                                       << tolerance.relative << ", absolute " << tolerance.absolute << "); worst at ["
                                       << at << "]: got " << digits(got[at]) << ", want " << digits(want[at]) << ", "
                                       << worst << " times what is allowed";
}
template <class Got, class Want>
::testing::AssertionResult all_close(const std::vector<Got>& got, const std::vector<Want>& want, Tolerance tolerance) {
  return all_close(std::span<const Got>(got), std::span<const Want>(want), tolerance);
}

/// Whether all elements have the same bytes. A failure names the first element that differs, with both values.
template <class T>
::testing::AssertionResult same_bits(std::span<const T> got, std::span<const T> want) {
  if (got.size() != want.size()) {
    return ::testing::AssertionFailure() << got.size() << " elements, " << want.size() << " expected";
  }
  struct Bytes {
    unsigned char b[sizeof(T)];
  };
  std::size_t first = got.size(), wrong = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const auto g = std::bit_cast<Bytes>(got[i]), w = std::bit_cast<Bytes>(want[i]);
    if (std::equal(g.b, g.b + sizeof(T), w.b)) continue;
    if (wrong++ == 0) first = i;
  }
  if (wrong == 0) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << wrong << " of " << got.size() << " elements differ; first at [" << first
                                       << "]: got " << digits(got[first]) << ", want " << digits(want[first]);
}
template <class T>
::testing::AssertionResult same_bits(const std::vector<T>& got, const std::vector<T>& want) {
  return same_bits(std::span<const T>(got), std::span<const T>(want));
}

/// sqrt(Σ (got − want)²) / sqrt(Σ want²); the numerator alone where the denominator is 0.
template <class Got, class Want>
double relative_distance(const std::vector<Got>& got, const std::vector<Want>& want) {
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const auto g = static_cast<double>(got.at(i)), w = static_cast<double>(want[i]);
    error += (g - w) * (g - w);
    norm += w * w;
  }
  return norm > 0 ? std::sqrt(error / norm) : std::sqrt(error);
}

}  // namespace shard8::tests
