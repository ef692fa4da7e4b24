// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "fsdp/gathered.hpp"
#include "fsdp/unit_shards.hpp"

namespace shard8::fsdp {

/// One parameter in a gather buffer: what travels, (padded_rows / row_block, cols), and what is
/// computed with, (rows / row_block, cols): the same memory unless it is converted.
struct ParameterPlace {
  CopyTensors travel, compute;
};

/// A copy of a unit in a gather buffer.
struct UnitPlace {
  std::vector<ParameterPlace> parameters;
  std::vector<Gathered> gathered;          ///< what its users see
  std::vector<tensor::Tensor> travelling;  ///< what a gather moves as one call; none with one shard
  std::vector<tensor::Tensor> own;         ///< of each its stored shard; empty: it is written into it
};

/// Moves views of memory in the slot `from` to the same offsets in the slot `to`. Views of other memory stay.
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

/// The buffers (slots) in which units are gathered, and what lies in them where.
///
/// What a slot holds at a time is called a copy and has an id. A unit is one copy, of id `unit`; one that
/// rotates and has parameters with a copy for each pass is two, and a slot holds one of them. Other
/// units with such parameters are gathered with both at once. Rotating slots are as large as the
/// largest copy, and so is the one that single-use units share, which are in use one after the other; what is
/// in place already (ParameterPieces::gathers) takes no memory.
///
/// A copy lies at the same offsets in every slot, so it is laid out once: the lists grow with copies plus slots.
class GatherBuffers {
 public:
  GatherBuffers(const std::vector<UnitShape>& units, const std::vector<UnitShards>& shards, const Options& options,
                tensor::Arena& arena);

  int copies() const { return static_cast<int>(copies_.size()); }
  /// The copy that a visit uses.
  int copy_of(int unit, Pass pass) const;
  /// Those of visits, in the memory of `copies` if it is enough.
  std::vector<int> copies_of(std::span<const Visit> visits, std::vector<int> copies = {}) const;
  int unit_of(int copy) const { return copies_[index(copy)].unit; }

  int slots() const { return static_cast<int>(slots_.size()); }
  /// Slots [0, rotating_slots()) serve every copy without a slot of its own.
  int rotating_slots() const { return rotating_slots_; }
  /// The only slot of a copy that does not rotate, else -1.
  int own_slot(int copy) const { return own_slot_[index(copy)]; }

  /// A copy in its own slot or a rotating one.
  UnitPlace place(int slot, int copy) const;
  /// The same in the first slot that may hold it.
  const UnitPlace& first_place(int copy) const { return places_[index(copy)]; }
  int first_slot(int copy) const { return std::max(own_slot(copy), 0); }
  /// Moves views of a copy in one slot to another.
  MoveViews moving(int from, int to) const { return {slots_[index(from)], slots_[index(to)]}; }
  /// What a gather of that copy moves: this is the traffic.
  const std::vector<tensor::Tensor>& travelling(int copy) const { return first_place(copy).travelling; }

 private:
  struct Copy {
    int unit = 0;
    std::optional<Pass> only;  ///< of parameters with two copies that of one pass
  };
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }

  std::vector<Copy> copies_;
  std::vector<int> backward_copy_;     ///< by unit
  std::vector<int> own_slot_;          ///< by copy
  std::vector<UnitPlace> places_;      ///< by copy: in its first slot
  std::vector<tensor::Tensor> slots_;  ///< their bytes
  int rotating_slots_ = 0;
};

}  // namespace shard8::fsdp
