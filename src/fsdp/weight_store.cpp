// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "fsdp/weight_store.hpp"

#include <utility>

#include "kernels/elementwise.hpp"

namespace shard8::fsdp {

using tensor::Tensor;

namespace {

void copy(const tensor::Exec& exec, const std::vector<Tensor>& to, const std::vector<Tensor>& from) {
  for (std::size_t i = 0; i < to.size(); ++i) kernels::cast(exec, to[i], from[i]);
}

}  // namespace

GatherSchedule make_schedule(const UnitBuffers& buffers) {
  const GatherBuffers& gather = buffers.gather();
  std::vector<int> own;
  for (int c = 0; c < gather.copies(); ++c) own.push_back(gather.own_slot(c));
  return {std::move(own), gather.slots(), gather.rotating_slots(), buffers.options().prefetch};
}

WeightStore::WeightStore(const tensor::Exec& exec, const UnitBuffers& buffers, const comm::Communicator& shard_group,
                         profile::StepTimer& timer, GatherHooks hooks)
    : exec_(exec),
      buffers_(buffers),
      shard_group_(shard_group),
      timer_(timer),
      hooks_(std::move(hooks)),
      schedule_(make_schedule(buffers)),
      slots_(static_cast<std::size_t>(buffers.gather().slots())),
      held_(buffers.units().size(), -1) {}

void WeightStore::begin_step(std::span<const Visit> visits) {
  schedule_.begin_step(buffers_.gather().copies_of(visits));
  for (Slot& slot : slots_) ++slot.generation;
}

GatheredUnit WeightStore::acquire(int unit, Pass pass) {
  int& held = held_[static_cast<std::size_t>(unit)];
  SHARD8_REQUIRE(held < 0, "unit {} is acquired again before it was released", unit);
  const int copy = buffers_.gather().copy_of(unit, pass);
  for (const auto& gather : schedule_.acquire(copy)) start(gather);
  held = copy;
  const int s = schedule_.slot_of(copy);
  finish({copy, s});
  return slots_[static_cast<std::size_t>(s)].unit;
}

GatheredUnit WeightStore::in_use(int unit) const {
  const int copy = held_[static_cast<std::size_t>(unit)];
  SHARD8_REQUIRE(copy >= 0, "unit {} is not in use", unit);
  return slots_[static_cast<std::size_t>(schedule_.slot_of(copy))].unit;
}

void WeightStore::release(int unit) {
  int& held = held_[static_cast<std::size_t>(unit)];
  SHARD8_REQUIRE(held >= 0, "unit {} is released but not in use", unit);
  schedule_.release(std::exchange(held, -1));
}

/// Puts this rank's rows of what travels where they belong, then lets the others' come.
void WeightStore::start(const GatherSchedule::Start& gather) {
  const auto issue = timer_.issue(profile::Issue::gather);
  Slot& slot = slots_[static_cast<std::size_t>(gather.slot)];
  const UnitPlace& place = buffers_.gather().place(gather.slot, gather.copy);
  const int unit = buffers_.gather().unit_of(gather.copy);
  slot.ready = false;
  slot.unit = {place.gathered, {&slot.generation, ++slot.generation}};
  std::vector<GatherHooks::Own> asked;
  for (int p = 0; p < static_cast<int>(place.parameters.size()); ++p) {
    const ParameterPieces& pieces = buffers_.pieces(unit, p);
    if (pieces.source == Source::in_place) continue;
    const ShardLayout& layout = buffers_.layout(unit, p);
    CopyTensors own = slice(place.parameters[static_cast<std::size_t>(p)].travel, pieces.travel,
                            layout.first_row(shard_group_.rank()), layout.rows_per_shard);
    if (pieces.source == Source::hook) {
      asked.push_back({p, std::move(own)});
    } else {
      const CopyTensors& stored = buffers_.stored(unit)[static_cast<std::size_t>(p)];
      copy(exec_, own.forward, stored.forward);
      copy(exec_, own.backward, stored.backward);
    }
  }
  if (!asked.empty()) {
    auto part = timer_.part(profile::Part::elementwise);
    hooks_.before(unit, asked);
  }
  if (!place.travelling.empty()) slot.request = shard_group_.all_gather_in_place(place.travelling);
}

/// Waits for what travels and has made of it what is computed with, once a gather.
void WeightStore::finish(const GatherSchedule::Start& gather) {
  Slot& slot = slots_[static_cast<std::size_t>(gather.slot)];
  if (slot.ready) return;
  {
    auto phase = timer_.phase(profile::Phase::gather_wait);
    slot.request.wait();
  }
  const UnitPlace& place = buffers_.gather().place(gather.slot, gather.copy);
  const int unit = buffers_.gather().unit_of(gather.copy);
  std::vector<GatherHooks::Arrived> arrived;
  for (int p = 0; p < static_cast<int>(place.parameters.size()); ++p) {
    const ParameterPieces& pieces = buffers_.pieces(unit, p);
    const ParameterPlace& parameter = place.parameters[static_cast<std::size_t>(p)];
    if (!pieces.converted()) continue;
    const std::int64_t rows = buffers_.layout(unit, p).rows;
    arrived.push_back({p, slice(parameter.travel, pieces.travel, 0, rows), parameter.compute});
  }
  if (!arrived.empty()) {
    auto part = timer_.part(profile::Part::elementwise);
    hooks_.after(unit, arrived);
  }
  slot.ready = true;
}

}  // namespace shard8::fsdp
