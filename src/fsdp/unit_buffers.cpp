// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "fsdp/unit_buffers.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "tensor/overlay.hpp"

namespace shard8::fsdp {

using tensor::DType;
using tensor::MemoryKind;
using tensor::Tensor;

namespace {

/// Gradients of one unit are summed while those of the unit before are reduced.
constexpr int kRotatingGradientSlots = 2;

std::vector<UnitShards> make_shards(const std::vector<UnitShape>& units, const Options& options,
                                    tensor::Arena& weights) {
  std::vector<UnitShards> shards;
  for (const UnitShape& unit : units) {
    const base::Sharing sharing = unit.sharing();
    for (const ParameterShape& p : unit.parameters)
      SHARD8_REQUIRE(p.sharing.sharded == sharing.sharded && p.sharing.summed() == sharing.summed(),
                     "unit '{}': '{}' is sharded over '{}' and summed over '{}', '{}' over '{}' and '{}'", unit.name,
                     p.name, name_of(p.sharing.sharded), name_of(p.sharing.summed()), unit.parameters.front().name,
                     name_of(sharing.sharded), name_of(sharing.summed()));
    shards.push_back(make_shards(unit, options, weights));
  }
  return shards;
}

}  // namespace

UnitBuffers::UnitBuffers(std::vector<UnitShape> units, const Options& options, tensor::ArenaSet& arenas,
                         const std::vector<Tensor>& lent)
    : units_(std::move(units)),
      options_(options),
      shards_(make_shards(units_, options_, arenas[MemoryKind::weights])),
      gather_(units_, shards_, options_, arenas[MemoryKind::gathered]) {
  tensor::Arena& gradients = arenas[MemoryKind::gradients];
  for (int u = 0; u < static_cast<int>(units_.size()); ++u) gradient_.push_back(gradient_shards(u, lent, gradients));
  make_gradient_slots(gradients);
}

std::vector<Tensor> UnitBuffers::allocate(int unit, DType dtype, bool whole, tensor::Arena& arena) const {
  std::vector<Tensor> tensors;
  for (std::size_t p = 0; p < units_[index(unit)].parameters.size(); ++p) {
    const ShardLayout& layout = shards(unit).layouts[p];
    const std::int64_t rows = whole ? layout.padded_rows() : layout.rows_per_shard;
    tensors.push_back(arena.allocate({rows, units_[index(unit)].parameters[p].cols}, dtype));
  }
  return tensors;
}

GradientPlace UnitBuffers::lay_out_gradients(int unit, tensor::Arena& arena) const {
  GradientPlace place;
  place.whole = shard_ranks(unit) == 1 ? gradient(unit) : allocate(unit, DType::fp32, true, arena);
  if (options_.reduce != DType::fp32 && reduces(unit)) {
    place.staged = allocate(unit, options_.reduce, true, arena);
    place.staged_shard = shard_ranks(unit) == 1 ? place.staged : allocate(unit, options_.reduce, false, arena);
  }
  return place;
}

/// With one shard the gradients are summed in the shards, while the caller still uses the lent memory.
std::vector<Tensor> UnitBuffers::gradient_shards(int unit, const std::vector<Tensor>& lent,
                                                 tensor::Arena& arena) const {
  if (shard_ranks(unit) > 1 && index(unit) < lent.size()) {
    const Tensor& memory = lent[index(unit)];
    auto needed = tensor::Arena::measure("needed", arena.kind());
    allocate(unit, DType::fp32, false, needed);
    if (needed.used() <= memory.bytes()) {
      tensor::Arena in_lent("lent", arena.kind(), memory.data, memory.bytes());
      return allocate(unit, DType::fp32, false, in_lent);
    }
  }
  return allocate(unit, DType::fp32, false, arena);
}

void UnitBuffers::make_gradient_slots(tensor::Arena& arena) {
  std::vector<int> rotating, with_own_slot;
  for (int u = 0; u < static_cast<int>(units_.size()); ++u) {
    const bool summed_once = units_[index(u)].rotating || units_[index(u)].single_use;
    const bool rotates = summed_once && shard_ranks(u) > 1 && !options_.accumulate;
    (rotates ? rotating : with_own_slot).push_back(u);
  }
  const auto add_slot = [&](const std::vector<int>& units) {
    GradientSlot& slot = gradient_slots_.emplace_back();
    tensor::Overlay memory(arena);
    for (const int u : units) memory.add([&] { slot.emplace(u, lay_out_gradients(u, arena)); });
    memory.close();
  };
  own_gradient_slot_.assign(units_.size(), -1);
  rotating_gradient_slots_ = std::min(kRotatingGradientSlots, static_cast<int>(rotating.size()));
  for (int s = 0; s < rotating_gradient_slots_; ++s) add_slot(rotating);
  for (const int u : with_own_slot) {
    own_gradient_slot_[index(u)] = gradient_slots();
    add_slot({u});
  }
}

}  // namespace shard8::fsdp
