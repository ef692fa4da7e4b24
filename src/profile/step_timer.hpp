// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "profile/issue_times.hpp"
#include "profile/phase.hpp"
#include "profile/step_clock.hpp"

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
  class Scope;  // RAII, leaves the phase or part on destruction, also when an exception passes

  explicit StepTimer(std::unique_ptr<StepClock> clock = std::make_unique<HostClock>()) : clock_(std::move(clock)) {}

  /// About so many steps are to come: their lists get memory at the end of the first one, so that none later does.
  void expect(std::int64_t steps) { expected_ = steps; }
  void begin_step();
  /// Ends the step and waits for what its clock times. Its seconds, from the end of the step before it on: what
  /// was done between them, as what no phase claims, is `other`.
  double end_step();
  /// Finds the times of the phases of the step that ended last; false if there was none or they were found. It
  /// takes its time on a device: to be called when that has work.
  bool settle();
  /// Ends a step that is no step of the run.
  void drop_step();

  [[nodiscard]] Scope phase(Phase phase);
  /// Inside forward or backward; elsewhere it only opens the region. A part entered inside another
  /// takes the time away from it, too.
  [[nodiscard]] Scope part(Part part);
  /// The host's own time to have something done.
  [[nodiscard]] IssueTimes::Scope issue(Issue issue) { return {issues_, issue}; }

  /// Of all steps that ended.
  const std::vector<StepTimes>& steps() {
    settle();
    return steps_;
  }
  /// Since the start or the last clear_issues().
  const IssueTimes& issues() const { return issues_; }
  void clear_issues() { issues_.clear(); }

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
  struct Owner {
    int phase = static_cast<int>(Phase::other), part = -1;
    bool operator==(const Owner&) const = default;
  };
  /// The time since the last mark belongs to whatever is current.
  void charge();
  std::unique_ptr<StepClock> clock_;
  Owner owner_;
  std::vector<Owner> owners_;  ///< of the time before each mark
  std::vector<Owner> ended_;   ///< the same of the step that ended last
  double ended_total_ = 0;
  bool unsettled_ = false;
  bool left_ = false;  ///< a part was left, and its mark spared
  Owner left_owner_;
  std::vector<StepTimes> steps_;
  IssueTimes issues_;
  std::int64_t expected_ = 0;  ///< steps for which there is no memory yet
};

}  // namespace shard8::profile
