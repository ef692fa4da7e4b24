// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "fsdp/weight_store.hpp"

#include <utility>

namespace shard8::fsdp {

using tensor::Tensor;

GatherSchedule make_schedule(const UnitBuffers& buffers) {
  std::vector<int> own;
  for (int u = 0; u < static_cast<int>(buffers.units().size()); ++u) own.push_back(buffers.own_gather_slot(u));
  return {std::move(own), static_cast<int>(buffers.gather_slots().size()), buffers.rotating_gather_slots(),
          buffers.options().prefetch};
}

WeightStore::WeightStore(const UnitBuffers& buffers, const comm::Communicator& shard_group, profile::StepTimer& timer,
                         GatherHooks hooks)
    : buffers_(buffers),
      shard_group_(shard_group),
      timer_(timer),
      hooks_(std::move(hooks)),
      schedule_(make_schedule(buffers)),
      slots_(buffers.gather_slots().size()) {}

std::span<const Tensor> WeightStore::acquire(int unit) {
  for (const auto& gather : schedule_.acquire(unit)) start(gather);
  const auto s = static_cast<std::size_t>(schedule_.slot_of(unit));
  Slot& slot = slots_[s];
  if (!slot.ready) {
    auto scope = timer_.phase(profile::Phase::gather_wait);
    slot.request.wait();
    const GatherSlot& memory = buffers_.gather_slots()[s];
    if (buffers_.gathers()) hooks_.after(unit, memory.travel, memory.compute);
    slot.ready = true;
  }
  return slot.view;
}

std::span<const Tensor> WeightStore::in_use(int unit) const {
  SHARD8_REQUIRE(schedule_.in_use(unit), "unit {} is not in use", unit);
  return slots_[static_cast<std::size_t>(schedule_.slot_of(unit))].view;
}

void WeightStore::start(const GatherSchedule::Start& gather) {
  Slot& slot = slots_[static_cast<std::size_t>(gather.slot)];
  const GatherSlot& memory = buffers_.gather_slots()[static_cast<std::size_t>(gather.slot)];
  const auto& parameters = buffers_.units()[static_cast<std::size_t>(gather.unit)].parameters;
  slot.ready = false;
  slot.view.clear();
  std::vector<Tensor> own;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const ShardLayout& layout = buffers_.layout(gather.unit, static_cast<int>(p));
    const Tensor rows = memory.compute[p].slice(0, layout.rows);
    slot.view.push_back(parameters[p].vector ? rows.reshaped({layout.rows}) : rows);
    own.push_back(memory.travel[p].slice(layout.first_row(shard_group_.rank()), layout.rows_per_shard));
  }
  if (!buffers_.gathers()) return;
  hooks_.before(gather.unit, own);
  slot.request = shard_group_.all_gather_in_place(memory.travel);
}

}  // namespace shard8::fsdp
