// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/step_timer.hpp"

#include <fmt/format.h>

#include <Kokkos_Core.hpp>

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

double seconds(StepTimer::Clock::duration d) { return std::chrono::duration<double>(d).count(); }

}  // namespace

void StepTimer::charge() {
  const auto now = now_();
  const double elapsed = seconds(now - last_);
  last_ = now;
  current_.phase[at(phase_)] += elapsed;
  if (part_ < 0) return;
  if (phase_ == static_cast<int>(Phase::forward)) current_.part[0][at(part_)] += elapsed;
  if (phase_ == static_cast<int>(Phase::backward)) current_.part[1][at(part_)] += elapsed;
}

void StepTimer::begin_step() {
  current_ = {};
  last_ = step_begin_ = now_();
}

const StepTimes& StepTimer::end_step() {
  charge();
  current_.total = seconds(last_ - step_begin_);
  return steps_.emplace_back(current_);
}

StepTimer::Scope StepTimer::phase(Phase phase) { return Scope(*this, region_of(phase), static_cast<int>(phase), -1); }

StepTimer::Scope StepTimer::part(Part part) {
  return Scope(*this, region_of(static_cast<Phase>(phase_), part), phase_, static_cast<int>(part));
}

StepTimer::Scope::Scope(StepTimer& timer, const std::string& region, int phase, int part)
    : timer_(timer), outer_phase_(timer.phase_), outer_part_(timer.part_) {
  timer_.charge();
  Kokkos::Profiling::pushRegion(region);
  timer_.phase_ = phase;
  timer_.part_ = part;
}

StepTimer::Scope::~Scope() {
  timer_.charge();
  Kokkos::Profiling::popRegion();
  timer_.phase_ = outer_phase_;
  timer_.part_ = outer_part_;
}

}  // namespace shard8::profile
