// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <vector>

namespace shard8::profile {

/// What a StepTimer reads: marks between the pieces of a step's work, and the seconds between them,
/// which on a device are known only after the step.
class StepClock {
 public:
  virtual ~StepClock() = default;
  /// Begins a step with its first mark.
  virtual void begin() = 0;
  virtual void mark() = 0;
  /// Ends it at the last mark, which it waits for. The seconds of the step: from the end of the one before it, or
  /// from its own first mark if there was none.
  virtual double finish() = 0;
  /// Seconds of the pieces of the step that was finished last, before the next one is: from the end of the step
  /// before to the first mark, 0 if there was none, then from each mark to the next.
  virtual std::span<const double> pieces() = 0;
  /// What was finished last was no step that the next one follows.
  virtual void forget() = 0;
  /// Whether a mark costs so much that one of the two between parts with nothing between them is left out, and
  /// both if the parts are of a kind.
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
  double finish() override;
  std::span<const double> pieces() override { return seconds_; }
  void forget() override { end_.reset(); }

 private:
  Now now_;
  std::vector<Clock::time_point> marks_;
  std::optional<Clock::time_point> end_;  ///< of the step before
  std::vector<double> seconds_;
};

}  // namespace shard8::profile
