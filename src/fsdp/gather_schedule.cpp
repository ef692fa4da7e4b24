// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "fsdp/gather_schedule.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"

namespace shard8::fsdp {

GatherSchedule::GatherSchedule(std::vector<int> own_slot, int slots, int rotating_slots, int prefetch)
    : own_slot_(std::move(own_slot)),
      slots_(static_cast<std::size_t>(slots)),
      rotating_slots_(rotating_slots),
      prefetch_(prefetch) {}

void GatherSchedule::begin_step(std::vector<int> visits) {
  for (Slot& slot : slots_) {
    SHARD8_REQUIRE(!slot.in_use, "unit {} is still in use at the start of a step", slot.unit);
    slot.unit = -1;
  }
  visits_ = std::move(visits);
  cursor_ = 0;
}

std::vector<GatherSchedule::Start> GatherSchedule::acquire(int unit) {
  SHARD8_REQUIRE(cursor_ < visits_.size() && visits_[cursor_] == unit, "unit {} is used out of turn (visit {})", unit,
                 cursor_);
  std::vector<Start> starts;
  if (slot_of(unit) < 0) {
    const bool started = start(unit, starts);
    SHARD8_REQUIRE(started, "no buffer is free for unit {}", unit);
  }
  slots_[static_cast<std::size_t>(slot_of(unit))].in_use = true;
  ++cursor_;
  const std::size_t end = std::min(visits_.size(), cursor_ + static_cast<std::size_t>(prefetch_));
  for (std::size_t i = cursor_; i < end; ++i)
    if (slot_of(visits_[i]) < 0 && !start(visits_[i], starts)) break;
  return starts;
}

void GatherSchedule::release(int unit) {
  SHARD8_REQUIRE(in_use(unit), "unit {} is released but not in use", unit);
  slots_[static_cast<std::size_t>(slot_of(unit))].in_use = false;
}

int GatherSchedule::slot_of(int unit) const {
  const auto it = std::find_if(slots_.begin(), slots_.end(), [&](const Slot& s) { return s.unit == unit; });
  return it == slots_.end() ? -1 : static_cast<int>(it - slots_.begin());
}

bool GatherSchedule::in_use(int unit) const {
  const int s = slot_of(unit);
  return s >= 0 && slots_[static_cast<std::size_t>(s)].in_use;
}

std::size_t GatherSchedule::next_use(int unit) const {
  const auto from = visits_.begin() + static_cast<std::ptrdiff_t>(cursor_);
  return static_cast<std::size_t>(std::find(from, visits_.end(), unit) - visits_.begin());
}

/// A buffer for `unit`: its own, or the rotating one whose unit is needed latest. None when every
/// other holds a unit that is in use or needed sooner than this one.
int GatherSchedule::choose_slot(int unit) const {
  if (const int own = own_slot_[static_cast<std::size_t>(unit)]; own >= 0) return own;
  int best = -1;
  std::size_t best_use = next_use(unit);
  for (int s = 0; s < rotating_slots_; ++s) {
    const Slot& slot = slots_[static_cast<std::size_t>(s)];
    if (slot.in_use) continue;
    const std::size_t use = slot.unit < 0 ? visits_.size() + 1 : next_use(slot.unit);
    if (use > best_use) {
      best = s;
      best_use = use;
    }
  }
  return best;
}

bool GatherSchedule::start(int unit, std::vector<Start>& starts) {
  const int s = choose_slot(unit);
  if (s < 0) return false;
  slots_[static_cast<std::size_t>(s)].unit = unit;
  starts.push_back({unit, s});
  const auto rotating =
      std::count_if(slots_.begin(), slots_.begin() + rotating_slots_, [](const Slot& slot) { return slot.unit >= 0; });
  peak_rotating_units_ = std::max(peak_rotating_units_, static_cast<int>(rotating));
  return true;
}

}  // namespace shard8::fsdp
