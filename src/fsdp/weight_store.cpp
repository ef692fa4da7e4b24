// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "fsdp/weight_store.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"

namespace shard8::fsdp {

GatherSchedule make_schedule(const UnitBuffers& buffers) {
  const GatherSlots& gather = buffers.gather();
  std::vector<int> own;
  for (int c = 0; c < gather.copies(); ++c) own.push_back(gather.own_slot(c));
  return {std::move(own), gather.slots(), gather.rotating_slots(), buffers.options().prefetch};
}

WeightStore::WeightStore(operation::Executor& executor, const UnitBuffers& buffers, const comm::Mesh& mesh,
                         GatherHooks hooks)
    : executor_(executor),
      buffers_(buffers),
      mesh_(mesh),
      hooks_(std::move(hooks)),
      schedule_(make_schedule(buffers)),
      slots_(static_cast<std::size_t>(buffers.gather().slots())),
      copy_in_use_(buffers.units().size(), -1) {
  for (int c = 0; c < buffers.gather().copies(); ++c) copies_.push_back(make_copy(c));
}

WeightStore::Copy WeightStore::make_copy(int id) const {
  const GatherSlots& memory = buffers_.gather();
  const GatheredCopy& place = memory.first_place(id);
  const int unit = memory.unit_of(id);
  Copy made{.unit = unit,
            .slot = memory.first_slot(id),
            .sharded = buffers_.sharing(unit).sharded,
            .ranks = buffers_.shard_ranks(unit),
            .read = place.read,
            .transferred = place.transferred,
            .own = place.own,
            .before = {},
            .after = {}};
  const std::vector<WeightForms>& weights = buffers_.weights(unit);
  for (std::size_t p = 0; p < weights.size(); ++p) {
    const WeightForms& w = weights[p];
    const Copies& communicated = place.communicated[p];
    const int parameter = static_cast<int>(p);
    if (w.source == Source::hook)
      made.before.push_back({parameter, slice(communicated, w.first_row(), w.layout.rows_per_shard)});
    if (w.converted()) made.after.push_back({parameter, slice(communicated, 0, w.layout.rows), place.read[p]});
  }
  return made;
}

void WeightStore::begin_step(std::span<const Visit> visits) {
  visits_ = buffers_.gather().copies_of(visits, std::move(visits_));
  schedule_.begin_step(visits_);
  for (Slot& slot : slots_) ++slot.generation;
}

void WeightStore::gather_ahead() {
  for (const auto& gather : schedule_.ahead()) start(gather);
}

void WeightStore::wait() {
  for (Slot& slot : slots_) executor_.wait(slot.gather);
}

std::span<const GatheredWeight> WeightStore::acquire(int unit, Pass pass) {
  int& in_use_copy = copy_in_use_[static_cast<std::size_t>(unit)];
  SHARD8_REQUIRE(in_use_copy < 0, "unit {} is acquired again before it was released", unit);
  const int id = buffers_.gather().copy_of(unit, pass);
  for (const auto& gather : schedule_.acquire(id)) start(gather);
  in_use_copy = id;
  finish({id, schedule_.slot_of(id)});
  return copy(id).read;
}

std::span<const GatheredWeight> WeightStore::in_use(int unit) const {
  const int id = copy_in_use_[static_cast<std::size_t>(unit)];
  SHARD8_REQUIRE(id >= 0, "unit {} is not in use", unit);
  return copies_[static_cast<std::size_t>(id)].read;
}

void WeightStore::release(int unit) {
  int& in_use_copy = copy_in_use_[static_cast<std::size_t>(unit)];
  SHARD8_REQUIRE(in_use_copy >= 0, "unit {} is released but not in use", unit);
  schedule_.release(std::exchange(in_use_copy, -1));
}

/// Has the hook write this rank's rows where they are not stored, then starts the all-gather.
void WeightStore::start(const GatherSchedule::Start& gather) {
  Copy& copy = this->copy(gather.copy);
  const operation::At at(executor_, copy.unit);
  const auto issue = executor_.timer().issue(profile::Issue::gather);
  Slot& slot = slots_[static_cast<std::size_t>(gather.slot)];
  buffers_.gather().move(copy.slot, gather.slot, [&](const MoveViews& move) {
    move(copy.read);
    move(copy.transferred);
    for (GatherHooks::Own& own : copy.before) move(own.communicated);
    for (GatherHooks::Arrived& arrived : copy.after) {
      move(arrived.communicated);
      move(arrived.read);
    }
  });
  slot.ready = false;
  ++slot.generation;
  for (GatheredWeight& weight : copy.read) weight.stamp = {&slot.generation, slot.generation};
  if (!copy.before.empty()) hooks_.before(copy.unit, copy.before);
  if (copy.transferred.empty()) return;
  slot.gather =
      executor_.issue({.group = copy.sharded,
                       .ranks = copy.ranks,
                       .stream = operation::Stream::gather,
                       .tensors = copy.transferred,
                       .own = copy.own},
                      [&] {
                        return mesh_.group(copy.sharded)
                            .all_gather_in_place(copy.transferred, copy.own, {}, comm::Communicator::OwnPart::returned);
                      });
}

/// Waits for the all-gather and has the hook cast what arrived where products read another format. Does nothing if the
/// gather is finished already.
void WeightStore::finish(const GatherSchedule::Start& gather) {
  Slot& slot = slots_[static_cast<std::size_t>(gather.slot)];
  if (slot.ready) return;
  const Copy& copy = this->copy(gather.copy);
  const operation::At at(executor_, copy.unit);
  {
    auto phase = executor_.timer().phase(profile::Phase::gather_wait, "wait");
    executor_.wait(slot.gather);
  }
  if (!copy.after.empty()) hooks_.after(copy.unit, copy.after);
  slot.ready = true;
}

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
