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
  for (int c = 0; c < buffers.gather().copies(); ++c)
    copies_.push_back({buffers.gather().first_slot(c), buffers.gather().first_place(c)});
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
  return copy(id).forms.read;
}

std::span<const GatheredWeight> WeightStore::in_use(int unit) const {
  const int id = copy_in_use_[static_cast<std::size_t>(unit)];
  SHARD8_REQUIRE(id >= 0, "unit {} is not in use", unit);
  return copies_[static_cast<std::size_t>(id)].forms.read;
}

void WeightStore::release(int unit) {
  int& in_use_copy = copy_in_use_[static_cast<std::size_t>(unit)];
  SHARD8_REQUIRE(in_use_copy >= 0, "unit {} is released but not in use", unit);
  schedule_.release(std::exchange(in_use_copy, -1));
}

/// Has the hook write this rank's rows where they are not stored.
void WeightStore::write_own(int unit, const GatheredCopy& copy) {
  const auto& weights = buffers_.weights(unit);
  own_.clear();
  for (std::size_t p = 0; p < weights.size(); ++p)
    if (const WeightForms& w = weights[p]; w.source == Source::hook)
      own_.push_back({static_cast<int>(p), slice(copy.communicated[p], w.first_row(), w.layout.rows_per_shard)});
  if (!own_.empty()) hooks_.before(unit, own_);
}

/// Has the hook cast what arrived where products read another format.
void WeightStore::convert(int unit, const GatheredCopy& copy) {
  const auto& weights = buffers_.weights(unit);
  arrived_.clear();
  for (std::size_t p = 0; p < weights.size(); ++p)
    if (const WeightForms& w = weights[p]; w.converted())
      arrived_.push_back({static_cast<int>(p), slice(copy.communicated[p], 0, w.layout.rows), copy.read[p]});
  if (!arrived_.empty()) hooks_.after(unit, arrived_);
}

void WeightStore::start(const GatherSchedule::Start& gather) {
  const GatherSlots& memory = buffers_.gather();
  const int unit = memory.unit_of(gather.copy);
  const operation::At at(executor_, unit);
  const auto issue = executor_.timer().issue(profile::Issue::gather);
  Slot& slot = slots_[static_cast<std::size_t>(gather.slot)];
  GatheredCopy& forms = copy(gather.copy).forms;
  memory.move(forms, copy(gather.copy).slot, gather.slot);
  slot.ready = false;
  ++slot.generation;
  for (GatheredWeight& weight : forms.read) weight.stamp = {&slot.generation, slot.generation};
  write_own(unit, forms);
  if (forms.transferred.empty()) return;
  const base::AxisSet sharded = buffers_.sharing(unit).sharded;
  slot.gather = executor_.issue({.group = sharded,
                                 .ranks = buffers_.shard_ranks(unit),
                                 .stream = operation::Stream::gather,
                                 .tensors = forms.transferred},
                                [&] {
                                  return mesh_.group(sharded).all_gather_in_place(
                                      forms.transferred, forms.own, {}, comm::Communicator::OwnPart::returned);
                                });
}

/// Waits for the all-gather and converts what arrived. Does nothing if the gather is finished already.
void WeightStore::finish(const GatherSchedule::Start& gather) {
  Slot& slot = slots_[static_cast<std::size_t>(gather.slot)];
  if (slot.ready) return;
  const int unit = buffers_.gather().unit_of(gather.copy);
  const operation::At at(executor_, unit);
  {
    auto phase = executor_.timer().phase(profile::Phase::gather_wait, "wait");
    executor_.wait(slot.gather);
  }
  convert(unit, copy(gather.copy).forms);
  slot.ready = true;
}

}  // namespace shard8::fsdp
