// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/step_timer.hpp"

#include <fmt/format.h>

#include "profile/region.hpp"

namespace shard8::profile {
namespace {

constexpr std::size_t at(int i) { return static_cast<std::size_t>(i); }

const std::string& region_of(Phase phase) {
  static const auto names = [] {
    std::array<std::string, kPhases> all;
    for (int p = 0; p < kPhases; ++p) all[at(p)] = fmt::format("shard8::step::{}", name_of(static_cast<Phase>(p)));
    return all;
  }();
  return names[static_cast<std::size_t>(phase)];
}

const std::string& region_of(Phase phase, Part part) {
  static const auto names = [] {
    std::array<std::array<std::string, kParts>, kPhases> all;
    for (int p = 0; p < kPhases; ++p) {
      for (int q = 0; q < kParts; ++q) {
        all[at(p)][at(q)] =
            fmt::format("shard8::{}::{}", name_of(static_cast<Phase>(p)), name_of(static_cast<Part>(q)));
      }
    }
    return all;
  }();
  return names[static_cast<std::size_t>(phase)][static_cast<std::size_t>(part)];
}

}  // namespace

void StepTimer::charge() {
  owners_.push_back(std::exchange(left_, false) ? left_owner_ : owner_);
  clock_->mark();
}

void StepTimer::begin_step() {
  owners_.assign(1, Owner{});
  left_ = false;
  clock_->begin();
}

double StepTimer::end_step() {
  settle();
  charge();
  ended_total_ = clock_->finish();
  ended_.swap(owners_);
  unsettled_ = true;
  if (const auto steps = std::exchange(expected_, 0); steps > 0) {
    steps_.reserve(steps_.size() + static_cast<std::size_t>(steps));
    issues_.reserve(steps);
    for (auto* owners : {&owners_, &ended_}) owners->reserve(2 * ended_.size());  // steps differ by some
  }
  return ended_total_;
}

bool StepTimer::settle() {
  if (!std::exchange(unsettled_, false)) return false;
  const auto seconds = clock_->pieces();
  StepTimes times;
  times.total = ended_total_;
  for (std::size_t i = 0; i < ended_.size(); ++i) {
    const auto& [phase, part] = ended_[i];
    times.phase[at(phase)] += seconds[i];
    if (part < 0) continue;
    if (phase == static_cast<int>(Phase::forward)) times.part[0][at(part)] += seconds[i];
    if (phase == static_cast<int>(Phase::backward)) times.part[1][at(part)] += seconds[i];
  }
  steps_.push_back(times);
  return true;
}

void StepTimer::drop_step() {
  settle();
  charge();
  clock_->finish();
  clock_->forget();
}

StepTimer::Scope StepTimer::phase(Phase phase) { return Scope(*this, region_of(phase), static_cast<int>(phase), -1); }

StepTimer::Scope StepTimer::part(Part part) {
  return Scope(*this, region_of(static_cast<Phase>(owner_.phase), part), owner_.phase, static_cast<int>(part));
}

StepTimer::Scope::Scope(StepTimer& timer, const std::string& region, int phase, int part)
    : timer_(timer), outer_phase_(timer.owner_.phase), outer_part_(timer.owner_.part) {
  // A part that was left for another of its kind goes on.
  const bool goes_on = timer_.left_ && timer_.left_owner_ == Owner{phase, part};
  if (goes_on)
    timer_.left_ = false;
  else
    timer_.charge();
  push_region(region);
  timer_.owner_ = {phase, part};
}

StepTimer::Scope::~Scope() {
  // Between two parts of a phase nothing is done: a clock that spares marks makes one there, not two.
  const bool spared = timer_.clock_->sparing() && !timer_.left_ && timer_.owner_.part >= 0 && outer_part_ < 0;
  if (spared) {
    timer_.left_ = true;
    timer_.left_owner_ = timer_.owner_;
  } else {
    timer_.charge();
  }
  pop_region();
  timer_.owner_ = {outer_phase_, outer_part_};
}

std::string_view name_of(Issue issue) {
  constexpr std::string_view names[] = {"gather", "layer forward", "layer backward", "optimizer"};
  return names[static_cast<std::size_t>(issue)];
}

}  // namespace shard8::profile
