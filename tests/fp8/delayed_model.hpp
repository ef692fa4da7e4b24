// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <deque>
#include <vector>

namespace shard8::tests {

/// Delayed scaling of one tensor in plain double precision, written from the formulas alone: a history of the amaxes of
/// the last steps, and the scale that the history gives for the next step.
class DelayedModel {
 public:
  DelayedModel(double largest, int margin, std::size_t history, bool most_recent)
      : largest_(largest), margin_(margin), length_(history), most_recent_(most_recent) {}

  /// Adds a number to this step's amax: the largest magnitude, NaN above all.
  void see(float x) { now_ = larger(now_, std::abs(x)); }

  void end_step() {
    history_.push_front(now_);
    if (history_.size() > length_) history_.pop_back();
    now_ = 0;
    float amax = 0;
    for (const float past : history_) {
      amax = larger(amax, past);
      if (most_recent_) break;
    }
    scale_ = scale_of(amax, scale_);
  }

  float scale() const { return scale_; }
  float scale_of(float amax, float otherwise) const {
    if (amax == 0 || !std::isfinite(amax)) return otherwise;
    const double scale = std::ldexp(largest_, -margin_) / static_cast<double>(amax);
    return scale > static_cast<double>(FLT_MAX) ? FLT_MAX : static_cast<float>(scale);
  }

 private:
  static float larger(float a, float b) {
    if (std::isnan(a) || std::isnan(b)) return NAN;
    return std::max(a, b);
  }
  double largest_;
  int margin_;
  std::size_t length_;
  bool most_recent_;
  std::deque<float> history_;
  float now_ = 0, scale_ = 1;
};

}  // namespace shard8::tests
