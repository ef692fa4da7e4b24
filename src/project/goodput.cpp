// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "project/goodput.hpp"

#include <algorithm>
#include <cmath>

namespace shard8::project {

double goodput(const Failures& f, double interval_s) {
  const double m = f.between_s, after_hold_up = std::max(0.0, f.durable_s - f.hold_up_s);
  // An interval takes τ + h without a failure. With one, what is lost begins at the last durable checkpoint: the delay
  // until it is durable is trained again, once for each failure.
  const double spent = m * std::exp((f.restart_s + after_hold_up) / m) * std::expm1((interval_s + f.hold_up_s) / m);
  return interval_s / spent;
}

double best_interval_s(const Failures& f) {
  const double h = std::max(f.hold_up_s, 1e-3), m = f.between_s;
  double guess = m;
  if (h < 2 * m) {
    const double x = std::sqrt(h / (2 * m));
    guess = std::max(std::sqrt(2 * h * m) * (1 + x / 3 + x * x / 9) - h, 1e-3);
  }
  // Goodput has one maximum: golden section. No checkpoint begins before the one before is durable.
  double low = std::max(guess / 8, f.durable_s - f.hold_up_s), high = std::max(guess * 8, 2 * low);
  const double ratio = 0.5 * (std::sqrt(5.0) - 1);
  for (int i = 0; i < 100; ++i) {
    const double a = high - ratio * (high - low), b = low + ratio * (high - low);
    (goodput(f, a) > goodput(f, b) ? high : low) = goodput(f, a) > goodput(f, b) ? b : a;
  }
  return 0.5 * (low + high);
}

}  // namespace shard8::project
