// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/progress.hpp"
#include "profile/phase.hpp"
#include "profile/step_times.hpp"
#include "profile/trace_recorder.hpp"

namespace shard8::profile {

/// The clock of a StepTimer. Marks divide a step into intervals. On a device the length of an interval is known only
/// after the step.
class StepClock {
 public:
  virtual ~StepClock() = default;
  /// Begins a step and sets its first mark.
  virtual void begin() = 0;
  virtual void mark() = 0;
  /// Ends the step at its last mark and waits until the work before that mark is done. Returns the seconds of the step.
  /// A step starts where the step before it ended; without a step before it, at its own first mark.
  virtual double finish() = 0;
  /// The seconds of each interval of the step that finished last. The first interval reaches from the end of the step
  /// before to the first mark (0 without a step before); each other one reaches from a mark to the next. Must be called
  /// before the next step finishes.
  virtual std::span<const double> intervals() = 0;
  /// When the step that finished last started, in ns of the host's clock (trace_now()).
  virtual std::int64_t started() const = 0;
  /// On a device: from now on started() is known. Waits for the device.
  virtual void set_origin() {}
  /// The next step starts at its own first mark.
  virtual void reset() = 0;
  /// Whether a mark is expensive. If so, StepTimer sets one mark instead of two between two parts of a phase, and none
  /// between two parts of the same kind and the same exchange.
  virtual bool marks_are_costly() const { return false; }
};

/// The time of this thread. On hosts, work is done when the call that computes it returns.
class HostClock final : public StepClock {
 public:
  using Clock = std::chrono::steady_clock;
  using Now = Clock::time_point (*)();

  /// `now` returns the current time; tests pass a time that they set.
  explicit HostClock(Now now = &Clock::now) : now_(now) {}
  void begin() override;
  void mark() override { marks_.push_back(now_()); }
  double finish() override;
  std::span<const double> intervals() override { return seconds_; }
  std::int64_t started() const override { return started_; }
  void reset() override { end_.reset(); }

 private:
  Now now_;
  std::vector<Clock::time_point> marks_;
  std::optional<Clock::time_point> end_;  ///< when the step before ended; nothing before the first step
  std::int64_t started_ = 0;
  std::vector<double> seconds_;
};

/// Times the phases of each step on this rank. Opens a Kokkos Tools region for each phase and part
/// ("shard8::step::forward", "shard8::forward::gemm"), which Kokkos connectors (NVTX, Caliper, Perfetto) show.
class StepTimer {
  /// What an interval counts for.
  struct Owner {
    int phase = static_cast<int>(Phase::other);
    int part = -1;              ///< -1: none
    int exchange = kExchanges;  ///< kExchanges: none
    int note = -1;              ///< of TraceRecorder; -1: none
    bool experts = false;       ///< products of experts
    bool operator==(const Owner&) const = default;
  };

 public:
  class Scope;

  /// Without a clock (null) the timer times nothing and opens no regions, and only knows the current phase.
  explicit StepTimer(std::unique_ptr<StepClock> clock = std::make_unique<HostClock>()) : clock_(std::move(clock)) {}

  /// From now on `progress` is told of every phase and part; null: nobody. `progress` must outlive the timer.
  void set_progress(base::Progress* progress) { progress_ = progress; }
  /// Forgets the steps so far. About `steps` steps follow, of which figures leave out the first `skip`. The memory for
  /// these steps, which is bounded, is allocated at the end of the first step, so that no later step allocates any.
  void record(std::int64_t steps, std::int64_t skip) {
    steps_ = StepRecord(skip);
    reserved_steps_ = steps;
  }
  /// Begins a step, unless begin_early() has begun it.
  void begin_step();
  /// Begins the next step before its begin_step(): phases between two steps belong to the step after them.
  void begin_early();
  /// Ends the step and waits for the work that its clock times. Returns the seconds of the step since the end of the
  /// step before it. Time between the steps, and time in no phase, counts as `other`.
  double end_step();
  /// Computes the times of the phases of the step that ended last. Returns false if there is no such step or its times
  /// were computed before. On a device this takes host time, so call it while the device works.
  bool collect_timings();
  /// Begins work between two steps that counts for none: neither for times nor for traces. discard_step() ends it.
  void begin_uncounted();
  /// Ends a step that does not count, for example a rehearsal.
  void discard_step();

  /// `name`, static text, is what a trace calls the work of the phase.
  [[nodiscard]] Scope phase(Phase phase, std::string_view name = {});
  Phase current_phase() const { return static_cast<Phase>(owner_.phase); }
  /// A part of the current phase. A part that is entered inside another one suspends it. Parts of phases other than
  /// forward and backward only open a region, and are not timed but for traces. `name`, static text, is what a trace
  /// calls it: a kernel, or a step of an exchange.
  [[nodiscard]] Scope part(Part part, std::string_view name = {});
  /// part(Part::tensor_comm), counted for this exchange as well.
  [[nodiscard]] Scope exchange(Exchange exchange, std::string_view name = {}, int peer = -1);
  /// While it exists, parts gemm count for StepTimes::experts as well. The object sets no mark.
  class OfExperts {
   public:
    explicit OfExperts(StepTimer& timer) : timer_(timer), before_(std::exchange(timer.of_experts_, true)) {}
    OfExperts(const OfExperts&) = delete;
    OfExperts& operator=(const OfExperts&) = delete;
    ~OfExperts() { timer_.of_experts_ = before_; }

   private:
    StepTimer& timer_;
    bool before_;
  };
  /// Times how long the host takes to issue the work.
  [[nodiscard]] IssueTimes::Scope issue(Issue issue) {
    return {uncounted_ ? uncounted_issues_ : issues_, issue, trace()};
  }

  /// From now on `recorder` is told of the steps that it wants; null: nobody. `recorder` must outlive the timer or be
  /// replaced before its end. To be called between two steps.
  void set_trace(TraceRecorder* recorder);
  /// On a device: the times of traced steps are known from now on. Waits for the device. To be called between two
  /// steps.
  void set_trace_origin() { clock_->set_origin(); }
  /// The recorder if it traces this step, otherwise null.
  TraceRecorder* trace() const { return tracing_ ? recorder_ : nullptr; }
  /// The note of the current part; null if this step is not traced.
  TraceNote* note() { return tracing_ && owner_.note >= 0 ? &recorder_->note(owner_.note) : nullptr; }

  /// The times of all steps that have ended.
  const StepRecord& steps() {
    collect_timings();
    return steps_;
  }
  /// Host times since the start or the last clear_issues().
  const IssueTimes& issues() const { return issues_; }
  void clear_issues() { issues_.clear(); }

  /// Ends the phase or part when the object is destroyed, also by an exception.
  class Scope {
   public:
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope();

   private:
    friend class StepTimer;
    Scope(StepTimer& timer, const std::string& region, const Owner& owner, bool timed);
    StepTimer& timer_;
    Owner outer_;
    bool timed_;  ///< whether its begin and its end divide intervals
  };

 private:
  Scope counted_part(Part part, int exchange, std::string_view name, int peer);
  void begin();
  void begin_marks();
  void describe(Owner& owner, std::string_view name, int peer) const;
  void trace_step(std::span<const double> seconds);
  /// Sets a mark and notes the owner of the interval before it.
  void mark();

  std::unique_ptr<StepClock> clock_;
  base::Progress* progress_ = nullptr;
  Owner owner_;                         ///< current
  bool of_experts_ = false;             ///< see OfExperts
  std::optional<Owner> unmarked_part_;  ///< a part that has ended, but whose mark was omitted
  std::vector<Owner> owners_;           ///< of each interval of the current step
  std::vector<Owner> ended_;            ///< of each interval of the step that ended last
  double ended_total_ = 0;
  bool begun_early_ = false;
  bool uncollected_ = false;  ///< the times of the step that ended last are not in steps_ yet
  StepRecord steps_;
  IssueTimes issues_, uncounted_issues_;
  bool uncounted_ = false;           ///< the work under way counts for no step
  std::int64_t reserved_steps_ = 0;  ///< steps whose memory is not allocated yet
  TraceRecorder* recorder_ = nullptr;
  bool tracing_ = false;                    ///< the step under way is traced
  std::optional<std::int64_t> ended_step_;  ///< the number of the step that ended last, if it is traced
};

}  // namespace shard8::profile
