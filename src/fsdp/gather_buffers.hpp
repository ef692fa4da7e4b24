// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "base/error.hpp"
#include "fsdp/unit_shards.hpp"

namespace shard8::fsdp {

/// One parameter as kernels read it: views (rows / row_block, cols) of its pieces, without padding; (rows) for a
/// vector. If one copy serves both passes, `forward` and `backward` are the same views. If each pass has a copy, the
/// copy that was not gathered is empty.
struct Gathered {
  std::vector<tensor::Tensor> forward, backward;

  /// The copy of a pass. Throws Error(failed) if the copy was not gathered.
  const std::vector<tensor::Tensor>& of(Pass pass) const {
    const auto& copy = pass == Pass::forward ? forward : backward;
    SHARD8_REQUIRE(!copy.empty(), "the copy for the {} pass is not gathered, only the other",
                   pass == Pass::forward ? "forward" : "backward");
    return copy;
  }
};

/// The memory of one parameter in a slot. `travel` (padded_rows / row_block, cols) is the tensor that a gather
/// transfers. `compute` (rows / row_block, cols) is the tensor that kernels read. Both share memory unless the
/// parameter is converted after the gather.
struct ParameterPlace {
  CopyTensors travel, compute;
};

/// The memory of a copy of a unit in a slot.
struct UnitPlace {
  std::vector<ParameterPlace> parameters;
  std::vector<Gathered> gathered;          ///< by parameter
  std::vector<tensor::Tensor> travelling;  ///< what one all-gather transfers; empty with one shard
  /// For each of `travelling` its stored shard. Empty tensor: the hook writes this rank's rows into `travelling`.
  std::vector<tensor::Tensor> own;
};

/// Moves views of memory in the slot `from` to the same offsets in the slot `to`. Does not change views of other
/// memory.
class MoveViews {
 public:
  MoveViews(const tensor::Tensor& from, const tensor::Tensor& to) : from_(from), to_(to) {}
  void operator()(tensor::Tensor& view) const;
  void operator()(std::vector<tensor::Tensor>& views) const;
  void operator()(CopyTensors& tensors) const;
  void operator()(Gathered& parameter) const;

 private:
  const tensor::Tensor& from_;
  const tensor::Tensor& to_;
};

/// The buffers in which units are gathered, called slots, and the layout of units in them.
///
/// Rotating units share the rotating slots. Single-use units share one slot if there is one micro-batch, because they
/// are in use one after the other. Every other unit has a slot of its own, and so has every unit if
/// reshard_after_forward is false or if the unit needs no gather. A shared slot is as large as the largest copy that it
/// may hold. Parameters that kernels read in the shards (ParameterPieces::gathers) take no memory.
///
/// A slot holds one copy at a time. A copy has an id. Most units have one copy, whose id is the unit. A unit in the
/// rotating slots has two copies if a parameter has a copy for each pass: the forward copy, whose id is the unit, and
/// the backward copy. In other slots the one copy of a unit has the pieces of both passes.
///
/// A copy has the same offsets in every slot, so it is laid out once: host memory grows as copies plus slots.
class GatherBuffers {
 public:
  GatherBuffers(const std::vector<UnitShape>& units, const std::vector<UnitShards>& shards, const Options& options,
                tensor::Arena& arena);

  int copies() const { return static_cast<int>(copies_.size()); }
  /// The copy that a visit uses.
  int copy_of(int unit, Pass pass) const;
  /// The copies of visits, in their order. Uses the memory of `copies` if it is large enough.
  std::vector<int> copies_of(std::span<const Visit> visits, std::vector<int> copies = {}) const;
  int unit_of(int copy) const { return copies_[index(copy)].unit; }

  int slots() const { return static_cast<int>(slots_.size()); }
  /// Slots [0, rotating_slots()) are the rotating ones.
  int rotating_slots() const { return rotating_slots_; }
  /// The only slot that may hold a copy; -1 for a copy of a rotating unit.
  int own_slot(int copy) const { return own_slot_[index(copy)]; }

  /// The memory of a copy in `slot`: its own slot, or a rotating slot if it has none.
  UnitPlace place(int slot, int copy) const;
  /// The memory of a copy in the first slot that may hold it.
  const UnitPlace& first_place(int copy) const { return places_[index(copy)]; }
  int first_slot(int copy) const { return std::max(own_slot(copy), 0); }
  /// Moves views of a copy from one slot to another.
  MoveViews moving(int from, int to) const { return {slots_[index(from)], slots_[index(to)]}; }
  /// What a gather of a copy transfers, in its first slot.
  const std::vector<tensor::Tensor>& travelling(int copy) const { return first_place(copy).travelling; }

 private:
  struct Copy {
    int unit = 0;
    std::optional<Pass> only;  ///< the pass whose pieces the copy has; none: both passes
  };
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }

  std::vector<Copy> copies_;
  std::vector<int> backward_copy_;     ///< by unit
  std::vector<int> own_slot_;          ///< by copy
  std::vector<UnitPlace> places_;      ///< by copy, in its first slot
  std::vector<tensor::Tensor> slots_;  ///< as bytes
  int rotating_slots_ = 0;
};

}  // namespace shard8::fsdp
