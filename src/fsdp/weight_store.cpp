// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "fsdp/weight_store.hpp"

#include <utility>

namespace shard8::fsdp {

GatherSchedule make_schedule(const UnitBuffers& buffers) {
  const GatherBuffers& gather = buffers.gather();
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

WeightStore::Copy WeightStore::make_copy(int copy) const {
  const GatherBuffers& gather = buffers_.gather();
  const UnitPlace& place = gather.first_place(copy);
  const int unit = gather.unit_of(copy);
  Copy made{gather.first_slot(copy), place.gathered, place.travelling, {}, {}};
  for (int p = 0; p < static_cast<int>(place.parameters.size()); ++p) {
    const ParameterPieces& pieces = buffers_.pieces(unit, p);
    const ParameterPlace& parameter = place.parameters[static_cast<std::size_t>(p)];
    const ShardLayout& layout = buffers_.layout(unit, p);
    if (pieces.source == Source::hook) {
      const std::int64_t first = layout.first_row(mesh_.place.rank(buffers_.sharing(unit).sharded));
      made.before.push_back({p, slice(parameter.travel, pieces.travel, first, layout.rows_per_shard)});
    }
    if (pieces.converted())
      made.after.push_back({p, slice(parameter.travel, pieces.travel, 0, layout.rows), parameter.compute});
  }
  return made;
}

WeightStore::Copy& WeightStore::move_copy(const GatherSchedule::Start& gather) {
  Copy& copy = copies_[static_cast<std::size_t>(gather.copy)];
  if (copy.slot == gather.slot) return copy;
  const MoveViews move = buffers_.gather().moving(std::exchange(copy.slot, gather.slot), gather.slot);
  for (Gathered& parameter : copy.gathered) move(parameter);
  move(copy.travelling);
  for (GatherHooks::Own& own : copy.before) move(own.travel);
  for (GatherHooks::Arrived& arrived : copy.after) {
    move(arrived.travel);
    move(arrived.compute);
  }
  return copy;
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

GatheredUnit WeightStore::acquire(int unit, Pass pass) {
  int& in_use_copy = copy_in_use_[static_cast<std::size_t>(unit)];
  SHARD8_REQUIRE(in_use_copy < 0, "unit {} is acquired again before it was released", unit);
  const int copy = buffers_.gather().copy_of(unit, pass);
  for (const auto& gather : schedule_.acquire(copy)) start(gather);
  in_use_copy = copy;
  const int s = schedule_.slot_of(copy);
  finish({copy, s});
  return slots_[static_cast<std::size_t>(s)].unit;
}

GatheredUnit WeightStore::in_use(int unit) const {
  const int copy = copy_in_use_[static_cast<std::size_t>(unit)];
  SHARD8_REQUIRE(copy >= 0, "unit {} is not in use", unit);
  return slots_[static_cast<std::size_t>(schedule_.slot_of(copy))].unit;
}

void WeightStore::release(int unit) {
  int& in_use_copy = copy_in_use_[static_cast<std::size_t>(unit)];
  SHARD8_REQUIRE(in_use_copy >= 0, "unit {} is released but not in use", unit);
  schedule_.release(std::exchange(in_use_copy, -1));
}

/// Has the hook write this rank's rows where they are not stored, then starts the all-gather.
void WeightStore::start(const GatherSchedule::Start& gather) {
  const int unit = buffers_.gather().unit_of(gather.copy);
  const operation::At at(executor_, unit);
  const auto issue = executor_.timer().issue(profile::Issue::gather);
  Slot& slot = slots_[static_cast<std::size_t>(gather.slot)];
  const Copy& copy = move_copy(gather);
  slot.ready = false;
  slot.unit = {copy.gathered, {&slot.generation, ++slot.generation}};
  if (!copy.before.empty()) hooks_.before(unit, copy.before);
  if (copy.travelling.empty()) return;
  const base::AxisSet sharded = buffers_.sharing(unit).sharded;
  slot.gather = executor_.issue({.group = sharded,
                                 .ranks = buffers_.shard_ranks(unit),
                                 .stream = operation::Stream::gather,
                                 .tensors = copy.travelling},
                                [&] {
                                  return mesh_.group(sharded).all_gather_in_place(
                                      copy.travelling, buffers_.gather().first_place(gather.copy).own, {},
                                      comm::Communicator::OwnPart::returned);
                                });
}

/// Waits for the all-gather and has the hook convert what arrived. Does nothing if the gather is finished already.
void WeightStore::finish(const GatherSchedule::Start& gather) {
  Slot& slot = slots_[static_cast<std::size_t>(gather.slot)];
  if (slot.ready) return;
  const int unit = buffers_.gather().unit_of(gather.copy);
  const operation::At at(executor_, unit);
  {
    auto phase = executor_.timer().phase(profile::Phase::gather_wait, "wait");
    executor_.wait(slot.gather);
  }
  if (const auto& arrived = copies_[static_cast<std::size_t>(gather.copy)].after; !arrived.empty())
    hooks_.after(unit, arrived);
  slot.ready = true;
}

}  // namespace shard8::fsdp
