// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/step_timer.hpp"

#include <Kokkos_Core.hpp>

#include "base/error.hpp"

namespace shard8::profile {
namespace {

constexpr std::size_t at(int i) { return static_cast<std::size_t>(i); }

std::string region_name(std::string_view outer, std::string_view inner) {
  return "shard8::" + std::string(outer) + "::" + std::string(inner);
}

/// Whether the parts of a phase are timed.
constexpr bool has_parts(Phase phase) { return phase == Phase::forward || phase == Phase::backward; }

const std::string& region_of(Phase phase) {
  static const auto names = [] {
    std::array<std::string, kPhases> all;
    for (int p = 0; p < kPhases; ++p) all[at(p)] = region_name("step", name_of(static_cast<Phase>(p)));
    return all;
  }();
  return names[static_cast<std::size_t>(phase)];
}

const std::string& region_of(Phase phase, Part part) {
  static const auto names = [] {
    std::array<std::array<std::string, kParts>, kPhases> all;
    for (int p = 0; p < kPhases; ++p)
      for (int q = 0; q < kParts; ++q)
        all[at(p)][at(q)] = region_name(name_of(static_cast<Phase>(p)), name_of(static_cast<Part>(q)));
    return all;
  }();
  return names[static_cast<std::size_t>(phase)][static_cast<std::size_t>(part)];
}

}  // namespace

void HostClock::begin() {
  marks_.clear();
  mark();
}

double HostClock::finish() {
  const auto seconds = [](Clock::time_point from, Clock::time_point to) {
    return std::chrono::duration<double>(to - from).count();
  };
  const auto start = end_.value_or(marks_.front());
  seconds_.assign(1, seconds(start, marks_.front()));
  for (std::size_t i = 1; i < marks_.size(); ++i) seconds_.push_back(seconds(marks_[i - 1], marks_[i]));
  end_ = marks_.back();
  started_ = std::chrono::duration_cast<std::chrono::nanoseconds>(start.time_since_epoch()).count();
  return seconds(start, marks_.back());
}

void StepTimer::mark() {
  if (uncounted_) return;  // there may be any number of them
  owners_.push_back(std::exchange(unmarked_part_, std::nullopt).value_or(owner_));
  clock_->mark();
}

void StepTimer::begin_step() {
  if (!std::exchange(begun_early_, false)) begin();
}

void StepTimer::begin_early() {
  if (!std::exchange(begun_early_, true)) begin();
}

void StepTimer::set_trace(TraceRecorder* recorder) {
  recorder_ = recorder;
  tracing_ = false;
}

void StepTimer::begin() {
  if (clock_ == nullptr) return;
  if (recorder_ != nullptr) tracing_ = recorder_->begin_step();
  begin_marks();
}

void StepTimer::begin_uncounted() {
  if (clock_ == nullptr) return;
  SHARD8_REQUIRE(!begun_early_, "work that counts for no step begins within a step");
  tracing_ = false;
  uncounted_ = true;
  begin_marks();
}

void StepTimer::begin_marks() {
  owners_.assign(1, Owner{});  // the interval between the steps
  unmarked_part_.reset();
  clock_->begin();
}

double StepTimer::end_step() {
  if (clock_ == nullptr) return 0;
  collect_timings();
  mark();
  ended_total_ = clock_->finish();
  ended_.swap(owners_);
  uncollected_ = true;
  if (tracing_) ended_step_ = recorder_->step();
  if (const auto steps = std::exchange(reserved_steps_, 0); steps > 0) {
    steps_.reserve(steps);
    // Twice as many intervals as the first step has: the number differs between steps.
    for (auto* owners : {&owners_, &ended_}) owners->reserve(2 * ended_.size());
  }
  return ended_total_;
}

bool StepTimer::collect_timings() {
  if (!std::exchange(uncollected_, false)) return false;
  const auto seconds = clock_->intervals();
  StepTimes times;
  times.total = ended_total_;
  for (std::size_t i = 0; i < ended_.size(); ++i) {
    const auto& [phase, part, exchange, note, experts] = ended_[i];
    times.phase[at(phase)] += seconds[i];
    const bool backward = phase == static_cast<int>(Phase::backward);
    if (part < 0 || !has_parts(static_cast<Phase>(phase))) continue;
    times.part[backward ? 1 : 0][at(part)] += seconds[i];
    if (part == static_cast<int>(Part::tensor_comm)) times.exchange[at(exchange)] += seconds[i];
    if (experts) times.experts += seconds[i];
  }
  steps_.add(times);
  if (ended_step_) trace_step(seconds);
  return true;
}

void StepTimer::trace_step(std::span<const double> seconds) {
  const std::int64_t step = *std::exchange(ended_step_, std::nullopt);
  if (recorder_ == nullptr) return;
  const std::int64_t start = clock_->started();
  const auto after = [&](double passed) { return start + static_cast<std::int64_t>(passed * 1e9 + 0.5); };
  double passed = 0;
  for (std::size_t i = 0; i < ended_.size(); ++i) {
    const std::int64_t begin = after(passed);
    passed += seconds[i];
    recorder_->add_work(
        {begin, after(passed), step, ended_[i].phase, ended_[i].part, ended_[i].exchange, ended_[i].note});
  }
  recorder_->add_step({step, start, after(passed)});
}

void StepTimer::discard_step() {
  collect_timings();
  uncounted_ = false;
  mark();
  clock_->finish();
  clock_->reset();
}

StepTimer::Scope StepTimer::phase(Phase phase, std::string_view name) {
  Owner owner{.phase = static_cast<int>(phase)};
  if (tracing_) describe(owner, name, -1);
  return Scope(*this, region_of(phase), owner, true);
}

StepTimer::Scope StepTimer::part(Part part, std::string_view name) { return counted_part(part, kExchanges, name, -1); }

StepTimer::Scope StepTimer::exchange(Exchange exchange, std::string_view name, int peer) {
  return counted_part(Part::tensor_comm, static_cast<int>(exchange), name, peer);
}

StepTimer::Scope StepTimer::counted_part(Part part, int exchange, std::string_view name, int peer) {
  const Phase phase = current_phase();
  Owner owner{owner_.phase, static_cast<int>(part), exchange};
  owner.experts = of_experts_ && part == Part::gemm;
  if (tracing_) describe(owner, name, peer);
  return Scope(*this, region_of(phase, part), owner, has_parts(phase) || tracing_);
}

/// Gives the owner a note of this step's trace.
void StepTimer::describe(Owner& owner, std::string_view name, int peer) const {
  owner.note = recorder_->add_note(name);
  recorder_->note(owner.note).peer = peer;
  recorder_->set_exchange(owner.exchange);
}

StepTimer::Scope::Scope(StepTimer& timer, const std::string& region, const Owner& owner, bool timed)
    : timer_(timer), outer_(timer.owner_), timed_(timed) {
  if (timer_.clock_ == nullptr) {
    timer_.owner_ = owner;
    return;
  }
  // A part that follows a part of the same kind continues its interval.
  if (timed_ && timer_.unmarked_part_ == owner)
    timer_.unmarked_part_.reset();
  else if (timed_)
    timer_.mark();
  Kokkos::Profiling::pushRegion(region);
  if (timer_.progress_ != nullptr) timer_.progress_->note(region.c_str());
  if (timed_) timer_.owner_ = owner;
}

StepTimer::Scope::~Scope() {
  if (timer_.clock_ == nullptr) {
    timer_.owner_ = outer_;
    return;
  }
  // Nothing happens between two parts of a phase, so the mark at the begin of the second part ends the first one too.
  const bool omit_mark =
      timer_.clock_->marks_are_costly() && !timer_.unmarked_part_ && timer_.owner_.part >= 0 && outer_.part < 0;
  if (timed_ && omit_mark)
    timer_.unmarked_part_ = timer_.owner_;
  else if (timed_)
    timer_.mark();
  Kokkos::Profiling::popRegion();
  if (timer_.progress_ != nullptr) timer_.progress_->note();
  if (TraceNote* const note = timer_.note()) {
    note->issue_ended = trace_now();
    timer_.recorder_->set_exchange(outer_.exchange);
  }
  timer_.owner_ = outer_;
}

}  // namespace shard8::profile
