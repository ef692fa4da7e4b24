// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "base/arithmetic.hpp"
#include "profile/compare/comparison.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace shard8::profile {
namespace {

constexpr std::size_t kLeastSteps = 4;     ///< chosen: two blocks of two
constexpr double kMostCorrelation = 0.98;  ///< chosen: the error stays finite

/// The sum of (x − mean)².
double squares(std::span<const double> values, double mean) {
  return std::accumulate(values.begin(), values.end(), 0.0,
                         [mean](double sum, double x) { return sum + (x - mean) * (x - mean); });
}

/// The variance of the mean of `blocks` blocks, which have equal lengths but for one value.
double variance_by_blocks(std::span<const double> values, std::size_t blocks) {
  double sum = 0, sum_of_squares = 0;
  const double mean = base::mean_of(values);
  for (std::size_t b = 0; b < blocks; ++b) {
    const std::size_t first = b * values.size() / blocks, end = (b + 1) * values.size() / blocks;
    const double x = base::mean_of(values.subspan(first, end - first)) - mean;
    sum += x;
    sum_of_squares += x * x;
  }
  const auto n = static_cast<double>(blocks);
  return std::max(0.0, sum_of_squares - sum * sum / n) / (n - 1) / n;
}

/// The correlation of neighbours.
double correlation(std::span<const double> values) {
  const double mean = base::mean_of(values), all = squares(values, mean);
  if (all <= 0) return 0;
  double neighbours = 0;
  for (std::size_t i = 1; i < values.size(); ++i) neighbours += (values[i] - mean) * (values[i - 1] - mean);
  const double r = neighbours / all;
  return std::clamp(r + (1 + 4 * r) / static_cast<double>(values.size()), 0.0, kMostCorrelation);
}

/// The continued fraction of the incomplete beta function, by Lentz's method. The method converges fast for x < (a +
/// 1)/(a + b + 2). Source: https://dlmf.nist.gov/8.17.E22
double beta_fraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300;
  const auto not_zero = [](double value) { return std::abs(value) < kTiny ? kTiny : value; };
  double c = 1, d = 1 / not_zero(1 - (a + b) * x / (a + 1)), result = d;
  for (int m = 1; m < 1000; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    double factor = 1;
    for (const double term : {even, odd}) {
      d = 1 / not_zero(1 + term * d);
      c = not_zero(1 + term / c);
      factor = c * d;
      result *= factor;
    }
    if (std::abs(factor - 1) < 1e-14) break;
  }
  return result;
}

/// The regularized incomplete beta function.
double incomplete_beta(double a, double b, double x) {
  if (x <= 0 || x >= 1) return x <= 0 ? 0 : 1;
  const double front =
      std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x));
  return x < (a + 1) / (a + b + 2) ? front * beta_fraction(a, b, x) / a : 1 - front * beta_fraction(b, a, 1 - x) / b;
}

}  // namespace

StepMean StepMean::of(double value) const {
  return {.mean = value, .error = mean == 0 ? error : error * std::abs(value / mean), .freedom = freedom};
}

std::optional<StepMean> mean_of_steps(std::span<const double> values) {
  if (values.size() < kLeastSteps) return std::nullopt;
  const auto length = static_cast<std::size_t>(std::sqrt(static_cast<double>(values.size())));
  const std::size_t blocks = values.size() / length;
  const double r = correlation(values), mean = base::mean_of(values);
  const double independent = static_cast<double>(values.size()) * (1 - r) / (1 + r);
  const double of_values = squares(values, mean) / static_cast<double>(values.size() - 1);
  const double variance = std::max(variance_by_blocks(values, blocks), of_values / independent);
  return StepMean{.mean = mean, .error = std::sqrt(variance), .freedom = static_cast<double>(blocks - 1)};
}

MeanDifference difference_of(const StepMean& a, const StepMean& b) {
  MeanDifference d{.difference = b.mean - a.mean};
  const double of_a = a.error * a.error, of_b = b.error * b.error, both = of_a + of_b;
  d.error = std::sqrt(both);
  d.freedom =
      both > 0 ? both * both / (of_a * of_a / a.freedom + of_b * of_b / b.freedom) : std::min(a.freedom, b.freedom);
  return d;
}

double MeanDifference::confidence() const {
  if (difference == 0) return 0;
  return error > 0 ? student_within(std::abs(difference) / error, freedom) : 1;
}

double MeanDifference::margin(double confidence) const {
  return error > 0 ? error * student_quantile(confidence, freedom) : 0;
}

double student_within(double t, double freedom) {
  return 1 - incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t));
}

double student_quantile(double within, double freedom) {
  double low = 0, high = 1;
  while (student_within(high, freedom) < within && high < 1e12) high *= 2;
  for (int i = 0; i < 200 && high - low > 1e-12 * high; ++i) {
    const double middle = (low + high) / 2;
    (student_within(middle, freedom) < within ? low : high) = middle;
  }
  return high;
}

}  // namespace shard8::profile
