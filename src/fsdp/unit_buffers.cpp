// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "fsdp/unit_buffers.hpp"

#include <algorithm>
#include <utility>

namespace shard8::fsdp {

using tensor::DType;
using tensor::MemoryKind;
using tensor::Tensor;

namespace {

/// Buffers in which gradients of consecutive layers are summed while the last one is reduced.
constexpr int kGradientBuffers = 2;

}  // namespace

UnitBuffers::UnitBuffers(std::vector<UnitShape> units, const Options& options, tensor::ArenaSet& arenas)
    : units_(std::move(units)), options_(options) {
  for (const UnitShape& unit : units_) {
    auto& layouts = layouts_.emplace_back();
    for (const ParameterShape& p : unit.parameters)
      layouts.push_back(ShardLayout::make(p.rows, options_.shards, p.granularity));
  }
  for (int u = 0; u < static_cast<int>(units_.size()); ++u) {
    master_.push_back(allocate(u, DType::fp32, false, arenas[MemoryKind::weights]));
    gradient_.push_back(allocate(u, DType::fp32, false, arenas[MemoryKind::gradients]));
  }
  make_gather_slots(arenas);
  make_gradient_slots(arenas);
}

const ShardLayout& UnitBuffers::layout(int unit, int parameter) const {
  return layouts_[index(unit)][index(parameter)];
}

std::vector<Tensor> UnitBuffers::allocate(int unit, DType dtype, bool whole, tensor::Arena& arena) const {
  std::vector<Tensor> tensors;
  for (std::size_t p = 0; p < units_[index(unit)].parameters.size(); ++p) {
    const ShardLayout& layout = layouts_[index(unit)][p];
    const std::int64_t rows = whole ? layout.padded_rows() : layout.rows_per_shard;
    tensors.push_back(arena.allocate({rows, units_[index(unit)].parameters[p].cols}, dtype));
  }
  return tensors;
}

GatherSlot UnitBuffers::make_gather_slot(int unit, tensor::ArenaSet& arenas) const {
  if (!gathers()) return {master(unit), master(unit)};
  GatherSlot slot;
  slot.compute = allocate(unit, options_.compute, true, arenas[MemoryKind::gathered]);
  slot.travel = options_.gather == options_.compute
                    ? slot.compute
                    : allocate(unit, options_.gather, true, arenas[MemoryKind::gathered]);
  return slot;
}

GradientSlot UnitBuffers::make_gradient_slot(int unit, tensor::ArenaSet& arenas) const {
  GradientSlot slot;
  tensor::Arena& arena = arenas[MemoryKind::gradients];
  slot.whole = options_.shards == 1 ? gradient(unit) : allocate(unit, DType::fp32, true, arena);
  if (options_.reduce != DType::fp32 && reduces()) {
    slot.staged = allocate(unit, options_.reduce, true, arena);
    slot.staged_shard = options_.shards == 1 ? slot.staged : allocate(unit, options_.reduce, false, arena);
  }
  return slot;
}

void UnitBuffers::make_gather_slots(tensor::ArenaSet& arenas) {
  int first_rotating = -1, layers = 0;
  for (int u = 0; u < static_cast<int>(units_.size()); ++u) {
    if (!units_[index(u)].rotating) continue;
    if (first_rotating < 0) first_rotating = u;
    ++layers;
  }
  const bool rotate = gathers() && options_.reshard_after_forward;
  rotating_gather_slots_ = rotate ? std::min(options_.prefetch + 1, layers) : 0;
  for (int s = 0; s < rotating_gather_slots_; ++s) gather_slots_.push_back(make_gather_slot(first_rotating, arenas));
  for (int u = 0; u < static_cast<int>(units_.size()); ++u) {
    const bool own = !units_[index(u)].rotating || rotating_gather_slots_ == 0;
    own_gather_slot_.push_back(own ? static_cast<int>(gather_slots_.size()) : -1);
    if (own) gather_slots_.push_back(make_gather_slot(u, arenas));
  }
}

void UnitBuffers::make_gradient_slots(tensor::ArenaSet& arenas) {
  int first_rotating = -1, layers = 0;
  for (int u = 0; u < static_cast<int>(units_.size()); ++u) {
    if (!units_[index(u)].rotating) continue;
    if (first_rotating < 0) first_rotating = u;
    ++layers;
  }
  const bool rotate = options_.shards > 1 && !options_.accumulate;
  rotating_gradient_slots_ = rotate ? std::min(kGradientBuffers, layers) : 0;
  for (int s = 0; s < rotating_gradient_slots_; ++s)
    gradient_slots_.push_back(make_gradient_slot(first_rotating, arenas));
  for (int u = 0; u < static_cast<int>(units_.size()); ++u) {
    const bool own = !units_[index(u)].rotating || rotating_gradient_slots_ == 0;
    own_gradient_slot_.push_back(own ? static_cast<int>(gradient_slots_.size()) : -1);
    if (own) gradient_slots_.push_back(make_gradient_slot(u, arenas));
  }
}

}  // namespace shard8::fsdp
