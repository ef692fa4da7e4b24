// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "fsdp/shard_layout.hpp"
#include "fsdp/unit_shape.hpp"
#include "tensor/arena_set.hpp"

namespace shard8::fsdp {

/// Where a gathered unit lies. `travel` receives the bytes, `compute` is what GEMMs read: the same
/// tensors unless what travels is of another dtype. Both (padded_rows, cols).
struct GatherSlot {
  std::vector<tensor::Tensor> travel, compute;
};

/// Where a unit's gradients are summed before they are reduced: `whole` (padded_rows, cols) fp32;
/// `staged` and `staged_shard` are their bf16 copies when gradients are reduced in bf16.
struct GradientSlot {
  std::vector<tensor::Tensor> whole, staged, staged_shard;
};

/// All memory of the units of one rank, laid out once: master and gradient shards of every unit
/// (rows_per_shard, cols) fp32, and the buffers in which units are gathered and reduced.
/// With one shard and fp32 compute the gathered weights are the master itself, and with one shard
/// the whole gradients are the gradient shards: nothing is copied.
class UnitBuffers {
 public:
  UnitBuffers(std::vector<UnitShape> units, const Options& options, tensor::ArenaSet& arenas);

  const std::vector<UnitShape>& units() const { return units_; }
  const Options& options() const { return options_; }
  const ShardLayout& layout(int unit, int parameter) const;
  const std::vector<tensor::Tensor>& master(int unit) const { return master_[index(unit)]; }
  const std::vector<tensor::Tensor>& gradient(int unit) const { return gradient_[index(unit)]; }

  bool gathers() const { return options_.shards > 1 || options_.compute != tensor::DType::fp32; }
  bool reduces() const { return options_.shards > 1 || options_.replicas > 1; }

  const std::vector<GatherSlot>& gather_slots() const { return gather_slots_; }
  const std::vector<GradientSlot>& gradient_slots() const { return gradient_slots_; }
  /// The slot of a unit with a buffer of its own, else -1: any of [0, rotating_*_slots()).
  int own_gather_slot(int unit) const { return own_gather_slot_[index(unit)]; }
  int own_gradient_slot(int unit) const { return own_gradient_slot_[index(unit)]; }
  int rotating_gather_slots() const { return rotating_gather_slots_; }
  int rotating_gradient_slots() const { return rotating_gradient_slots_; }

 private:
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  std::vector<tensor::Tensor> allocate(int unit, tensor::DType dtype, bool whole, tensor::Arena& arena) const;
  GatherSlot make_gather_slot(int unit, tensor::ArenaSet& arenas) const;
  GradientSlot make_gradient_slot(int unit, tensor::ArenaSet& arenas) const;
  void make_gather_slots(tensor::ArenaSet& arenas);
  void make_gradient_slots(tensor::ArenaSet& arenas);

  std::vector<UnitShape> units_;
  Options options_;
  std::vector<std::vector<ShardLayout>> layouts_;
  std::vector<std::vector<tensor::Tensor>> master_, gradient_;
  std::vector<GatherSlot> gather_slots_;
  std::vector<GradientSlot> gradient_slots_;
  std::vector<int> own_gather_slot_, own_gradient_slot_;
  int rotating_gather_slots_ = 0, rotating_gradient_slots_ = 0;
};

}  // namespace shard8::fsdp
