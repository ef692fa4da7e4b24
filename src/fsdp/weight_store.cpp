// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "fsdp/weight_store.hpp"

#include <utility>

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

}  // namespace shard8::fsdp
