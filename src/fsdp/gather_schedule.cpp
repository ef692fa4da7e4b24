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
      prefetch_(prefetch),
      slot_of_(own_slot_.size(), -1),
      next_use_(own_slot_.size(), 0) {}

void GatherSchedule::begin_step(const std::vector<int>& visits) {
  for (Slot& slot : slots_) {
    SHARD8_REQUIRE(!slot.in_use, "copy {} is still in use at the start of a step", slot.copy);
    slot.copy = -1;
  }
  std::fill(slot_of_.begin(), slot_of_.end(), -1);
  visits_ = visits;
  cursor_ = 0;
  following_.resize(visits_.size());
  std::fill(next_use_.begin(), next_use_.end(), visits_.size());
  for (std::size_t i = visits_.size(); i-- > 0;)
    following_[i] = std::exchange(next_use_.at(static_cast<std::size_t>(visits_[i])), i);
}

std::span<const GatherSchedule::Start> GatherSchedule::ahead() {
  starts_.clear();
  start_next(static_cast<std::size_t>(prefetch_) + 1);
  return starts_;
}

std::span<const GatherSchedule::Start> GatherSchedule::acquire(int copy) {
  SHARD8_REQUIRE(cursor_ < visits_.size() && visits_[cursor_] == copy, "copy {} is used out of turn (visit {})", copy,
                 cursor_);
  starts_.clear();
  if (slot_of(copy) < 0) {
    const bool started = start(copy);
    SHARD8_REQUIRE(started, "no buffer is free for copy {}", copy);
  }
  slots_[static_cast<std::size_t>(slot_of(copy))].in_use = true;
  next_use_[static_cast<std::size_t>(copy)] = following_[cursor_];
  ++cursor_;
  start_next(static_cast<std::size_t>(prefetch_));
  return starts_;
}

/// Starts the gathers of the next `count` visits, in their order, until no slot is free for one.
void GatherSchedule::start_next(std::size_t count) {
  const std::size_t end = std::min(visits_.size(), cursor_ + count);
  for (std::size_t i = cursor_; i < end; ++i)
    if (slot_of(visits_[i]) < 0 && !start(visits_[i])) break;
}

void GatherSchedule::release(int copy) {
  SHARD8_REQUIRE(in_use(copy), "copy {} is released but not in use", copy);
  slots_[static_cast<std::size_t>(slot_of(copy))].in_use = false;
}

bool GatherSchedule::in_use(int copy) const {
  const int s = slot_of(copy);
  return s >= 0 && slots_[static_cast<std::size_t>(s)].in_use;
}

/// The slot for `copy`: its own slot, or the rotating slot that is empty or whose copy is needed latest. Returns -1 if
/// every such slot holds a copy that is in use or that is needed sooner than `copy`.
int GatherSchedule::choose_slot(int copy) const {
  const int own = own_slot_[static_cast<std::size_t>(copy)];
  const int first = own < 0 ? 0 : own, end = own < 0 ? rotating_slots_ : own + 1;
  int best = -1;
  std::size_t best_use = next_use(copy);
  for (int s = first; s < end; ++s) {
    const Slot& slot = slots_[static_cast<std::size_t>(s)];
    if (slot.in_use) continue;
    const std::size_t use = slot.copy < 0 ? visits_.size() + 1 : next_use(slot.copy);
    if (use > best_use) {
      best = s;
      best_use = use;
    }
  }
  return best;
}

bool GatherSchedule::start(int copy) {
  const int s = choose_slot(copy);
  if (s < 0) return false;
  Slot& slot = slots_[static_cast<std::size_t>(s)];
  if (slot.copy >= 0) slot_of_[static_cast<std::size_t>(slot.copy)] = -1;
  slot.copy = copy;
  slot_of_[static_cast<std::size_t>(copy)] = s;
  starts_.push_back({copy, s});
  return true;
}

}  // namespace shard8::fsdp
