// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>

namespace shard8::profile {

/// The mean of the steps of a run, and how well it is known.
struct StepMean {
  double mean = 0;     ///< in the unit of the values
  double error = 0;    ///< standard error of the mean, ≥ 0
  double freedom = 1;  ///< degrees of freedom of the error, > 0

  /// The same, where the mean is known to be `value`: the error keeps its share of the mean.
  StepMean of(double value) const;
};

/// The mean of consecutive values, whose neighbours may resemble each other. Nothing for fewer than 4 values: the error
/// of fewer is not known.
///
/// The error is the larger of two estimates, since each one alone is too small for some series:
/// - Blocks of ⌊√n⌋ consecutive values: the means of blocks resemble each other less than single values do, and both
///   their length and their number grow with the series. (Batch means; Law, Simulation Modeling and Analysis, section
///   9.5.3.) Blocks of short series are too short for a strong correlation.
/// - s/√n · √((1 + r)/(1 − r)) with the correlation r of neighbours, which is exact for a first-order autoregression.
///   r is corrected for its bias in short series, r + (1 + 4r)/n (Kendall, Biometrika 41, 1954), and at least 0: an
///   error below s/√n is not believed.
/// The degrees of freedom are those of the blocks. Simulated autoregressions of 12 to 1000 values with r up to 0.5
/// leave a margin of 95 % in 1 to 4 % of pairs, with r = 0.8 in 5 % from 50 values on, in 10 % of 12 values.
std::optional<StepMean> mean_of_steps(std::span<const double> values);

/// What a difference of two means is worth: Welch's test.
struct MeanDifference {
  double difference = 0;  ///< b − a
  double error = 0;       ///< its standard error
  double freedom = 1;     ///< degrees of freedom of the error (Welch and Satterthwaite)

  /// The probability, from 0 to 1, with which two runs of one distribution would differ by less.
  double confidence() const;
  /// Half the width of the interval around the difference in which it lies with the probability `confidence`, < 1.
  double margin(double confidence) const;
};
MeanDifference difference_of(const StepMean& a, const StepMean& b);

/// The probability that |t| is below `t` ≥ 0, for Student's distribution with `freedom` > 0 degrees of freedom.
double student_within(double t, double freedom);
/// Its inverse: the t below which |t| lies with the probability `within`, 0 ≤ within < 1.
double student_quantile(double within, double freedom);

}  // namespace shard8::profile
