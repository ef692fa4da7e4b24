// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <vector>

#include "fsdp/gather_buffers.hpp"
#include "fsdp/unit_shards.hpp"
#include "tensor/arena.hpp"

namespace shard8::fsdp {

/// Where a unit's gradients are summed before they are reduced: `whole` (padded_rows, cols) fp32;
/// `staged` and `staged_shard` are their bf16 copies when gradients are reduced in bf16.
struct GradientPlace {
  std::vector<tensor::Tensor> whole, staged, staged_shard;
};

/// All memory of the units of one rank, laid out once: weight and gradient shards of every unit, and
/// the buffers in which units are gathered and reduced. With one shard nothing is copied that is
/// computed with as it is kept: fp32 masters, stored pieces, gradients.
class UnitBuffers {
 public:
  /// lent[u], if there is one: memory, as bytes, that nobody else needs from the moment when the
  /// gradients of u are all summed until the next step; the gradient shards of u lie there if they fit.
  UnitBuffers(std::vector<UnitShape> units, const Options& options, tensor::ArenaSet& arenas,
              const std::vector<tensor::Tensor>& lent = {});

  const std::vector<UnitShape>& units() const { return units_; }
  const Options& options() const { return options_; }
  const ShardLayout& layout(int unit, int parameter) const { return shards(unit).layouts[index(parameter)]; }
  const ParameterPieces& pieces(int unit, int parameter) const { return shards(unit).pieces[index(parameter)]; }

  /// Weight shards, see UnitShards.
  const std::vector<tensor::Tensor>& master(int unit) const { return shards(unit).master; }
  const std::vector<tensor::Tensor>& remainder(int unit) const { return shards(unit).remainder; }
  const std::vector<CopyTensors>& stored(int unit) const { return shards(unit).stored; }
  /// Gradient shards, (rows_per_shard, cols) fp32.
  const std::vector<tensor::Tensor>& gradient(int unit) const { return gradient_[index(unit)]; }

  /// False: the unit is computed with where its shards lie.
  bool gathers(int unit) const { return shards(unit).gathers(); }
  const GatherBuffers& gather() const { return gather_; }

  bool reduces() const { return options_.shards > 1 || options_.replicas > 1; }
  int gradient_slots() const { return static_cast<int>(gradient_slots_.size()); }
  /// Slots [0, rotating_gradient_slots()) serve every unit without a slot of its own.
  int rotating_gradient_slots() const { return rotating_gradient_slots_; }
  /// The slot of a unit with one of its own, else -1.
  int own_gradient_slot(int unit) const { return own_gradient_slot_[index(unit)]; }
  /// A unit in its own slot or a rotating one.
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
