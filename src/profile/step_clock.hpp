// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <span>
#include <vector>

namespace shard8::profile {

/// What a StepTimer reads: marks between the pieces of a step's work, and the seconds between them,
/// which on a device are known only after the step.
class StepClock {
 public:
  virtual ~StepClock() = default;
  /// Drops the marks and makes the first.
  virtual void begin() = 0;
  virtual void mark() = 0;
  /// Seconds from each mark to the next; waits until the last has been passed.
  virtual std::span<const double> finish() = 0;
  /// Whether a mark costs so much that those between two parts with nothing between them are left out.
  virtual bool sparing() const { return false; }
};

/// This thread's time: what a host computes is done when the call returns.
class HostClock final : public StepClock {
 public:
  using Clock = std::chrono::steady_clock;
  using Now = Clock::time_point (*)();

  /// `now` is another clock in tests.
  explicit HostClock(Now now = &Clock::now) : now_(now) {}
  void begin() override;
  void mark() override { marks_.push_back(now_()); }
  std::span<const double> finish() override;

 private:
  Now now_;
  std::vector<Clock::time_point> marks_;
  std::vector<double> seconds_;
};

}  // namespace shard8::profile
