// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "profile/step_timer.hpp"

namespace shard8::profile::tests {

/// The time of the tests' clock, in milliseconds.
inline std::int64_t& fake_ms() {
  static std::int64_t ms = 0;
  return ms;
}
inline HostClock::Clock::time_point fake_now() {
  return HostClock::Clock::time_point(std::chrono::milliseconds(fake_ms()));
}
inline void advance(std::int64_t ms) { fake_ms() += ms; }

/// The tests' clock with costly marks. Counts the marks after the first one of a step.
class CostlyClock final : public StepClock {
 public:
  explicit CostlyClock(int& marks) : marks_(marks) {}
  void begin() override { clock_.begin(); }
  void mark() override {
    ++marks_;
    clock_.mark();
  }
  double finish() override { return clock_.finish(); }
  std::span<const double> intervals() override { return clock_.intervals(); }
  std::int64_t started() const override { return clock_.started(); }
  void reset() override { clock_.reset(); }
  bool marks_are_costly() const override { return true; }

 private:
  HostClock clock_{fake_now};
  int& marks_;
};

inline double phase_ms(const StepTimes& t, Phase p) { return 1e3 * t.phase[static_cast<std::size_t>(p)]; }
inline double part_ms(const StepTimes& t, int direction, Part p) {
  return 1e3 * t.part[static_cast<std::size_t>(direction)][static_cast<std::size_t>(p)];
}

inline constexpr double kTolerance = 1e-9;  // rounding of sums of decimal fractions, in milliseconds

}  // namespace shard8::profile::tests
