// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <string>
#include <vector>

#include "profile/phase.hpp"

namespace shard8::profile {

/// Seconds of one step on this rank.
struct StepTimes {
  double total = 0;
  std::array<double, kPhases> phase{};
  std::array<std::array<double, kParts>, 2> part{};  ///< [0] inside forward, [1] inside backward
};

/// Times the phases of each step on this rank and opens a Kokkos Tools region for each
/// ("shard8::step::forward", "shard8::forward::gemm"), so that any Kokkos connector sees them.
class StepTimer {
 public:
  using Clock = std::chrono::steady_clock;
  using Now = Clock::time_point (*)();
  class Scope;  // RAII, leaves the phase or part on destruction, also when an exception passes

  /// `now` is another clock in tests.
  explicit StepTimer(Now now = &Clock::now) : now_(now) {}

  void begin_step();
  /// Ends the step and keeps its times; what no phase claimed is `other`.
  const StepTimes& end_step();

  [[nodiscard]] Scope phase(Phase phase);
  /// Inside forward or backward; elsewhere it only opens the region. A part entered inside another
  /// takes the time away from it, too.
  [[nodiscard]] Scope part(Part part);

  const std::vector<StepTimes>& steps() const { return steps_; }

  class Scope {
   public:
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope();

   private:
    friend class StepTimer;
    Scope(StepTimer& timer, const std::string& region, int phase, int part);
    StepTimer& timer_;
    int outer_phase_, outer_part_;
  };

 private:
  /// Gives the time since the last call to whatever was current until now.
  void charge();
  Now now_;
  StepTimes current_;
  Clock::time_point step_begin_{}, last_{};
  int phase_ = static_cast<int>(Phase::other);
  int part_ = -1;
  std::vector<StepTimes> steps_;
};

}  // namespace shard8::profile
