// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <vector>

#include "fsdp/gather_buffers.hpp"
#include "fsdp/unit_shards.hpp"
#include "tensor/arena.hpp"

namespace shard8::fsdp {

/// The memory of a unit's gradients in a gradient slot, by parameter. `whole` (padded_rows, cols) fp32: the unsharded
/// gradients. If gradients are reduced in bf16, `staged` (padded_rows, cols) and `staged_shard` (rows_per_shard, cols)
/// are the input and the output of the reduction, in bf16; otherwise they are empty.
struct GradientPlace {
  std::vector<tensor::Tensor> whole, staged, staged_shard;
};

/// All memory of the units of one rank, laid out once: the weight shards and the gradient shards of every unit, the
/// slots in which units are gathered, and the slots in which gradients are summed. With one shard, gradients are summed
/// in the gradient shards, and a weight that kernels read in the format in which it is kept is not copied.
class UnitBuffers {
 public:
  /// lent[u], if there is one, is memory as bytes. The gradient shards of unit u lie there if they fit. The caller must
  /// not use this memory from the moment when all gradients of u are summed until the next step begins. With one shard
  /// no lent memory is used. Throws Error(failed) if parameters of a unit cannot be gathered and reduced at once.
  UnitBuffers(std::vector<UnitShape> units, const Options& options, tensor::ArenaSet& arenas,
              const std::vector<tensor::Tensor>& lent = {});

  const std::vector<UnitShape>& units() const { return units_; }
  const Options& options() const { return options_; }
  const ShardLayout& layout(int unit, int parameter) const { return shards(unit).layouts[index(parameter)]; }
  const ParameterPieces& pieces(int unit, int parameter) const { return shards(unit).pieces[index(parameter)]; }

  /// Weight shards, by parameter: see UnitShards.
  const std::vector<tensor::Tensor>& master(int unit) const { return shards(unit).master; }
  const std::vector<tensor::Tensor>& remainder(int unit) const { return shards(unit).remainder; }
  const std::vector<CopyTensors>& stored(int unit) const { return shards(unit).stored; }
  /// Gradient shards, by parameter: (rows_per_shard, cols) fp32.
  const std::vector<tensor::Tensor>& gradient(int unit) const { return gradient_[index(unit)]; }

  /// Whether the unit needs memory in a gather buffer. If not, kernels read its shards.
  bool gathers(int unit) const { return shards(unit).gathers(); }
  const GatherBuffers& gather() const { return gather_; }

  /// The number of ranks over which the unit is sharded, and over which its gradient shards are summed then.
  int shard_ranks(int unit) const { return options_.place.mesh().ranks(sharing(unit).sharded); }
  int sum_ranks(int unit) const { return options_.place.mesh().ranks(sharing(unit).summed()); }
  /// Whether the unit's gradients are reduced over ranks.
  bool reduces(int unit) const { return shard_ranks(unit) > 1 || sum_ranks(unit) > 1; }
  base::Sharing sharing(int unit) const { return units_[index(unit)].sharing(); }
  /// Whether this rank counts the parameter in the norm of the gradients.
  bool counts(int unit, std::size_t parameter) const {
    return units_[index(unit)].parameters[parameter].sharing.counts(options_.place);
  }
  int gradient_slots() const { return static_cast<int>(gradient_slots_.size()); }
  /// Slots [0, rotating_gradient_slots()) serve every unit that has no slot of its own.
  int rotating_gradient_slots() const { return rotating_gradient_slots_; }
  /// A unit's own slot; -1 if it uses the rotating slots.
  int own_gradient_slot(int unit) const { return own_gradient_slot_[index(unit)]; }
  /// The memory of a unit in `slot`: its own slot, or a rotating slot if it has none.
  const GradientPlace& gradient_place(int slot, int unit) const { return gradient_slots_[index(slot)].at(unit); }

 private:
  using GradientSlot = std::map<int, GradientPlace>;  ///< by unit

  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  const UnitShards& shards(int unit) const { return shards_[index(unit)]; }
  std::vector<tensor::Tensor> allocate(int unit, tensor::DType dtype, bool whole, tensor::Arena& arena) const;
  GradientPlace lay_out_gradients(int unit, tensor::Arena& arena) const;
  std::vector<tensor::Tensor> gradient_shards(int unit, const std::vector<tensor::Tensor>& lent,
                                              tensor::Arena& arena) const;
  void make_gradient_slots(tensor::Arena& arena);

  std::vector<UnitShape> units_;
  Options options_;
  std::vector<UnitShards> shards_;
  GatherBuffers gather_;
  std::vector<std::vector<tensor::Tensor>> gradient_;
  std::vector<GradientSlot> gradient_slots_;
  std::vector<int> own_gradient_slot_;
  int rotating_gradient_slots_ = 0;
};

}  // namespace shard8::fsdp
