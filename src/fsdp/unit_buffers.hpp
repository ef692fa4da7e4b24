// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "fsdp/weight_forms.hpp"
#include "tensor/arena.hpp"

namespace shard8::fsdp {

/// Moves views of memory in the slot `from` to the same offsets in the slot `to`. Does not change views of other
/// memory.
class MoveViews {
 public:
  MoveViews(const tensor::Tensor& from, const tensor::Tensor& to)
      : begin_(from.data), end_(from.data + from.bytes()), to_(to.data) {}
  void operator()(tensor::Tensor& view) const;
  void operator()(Copies& copies) const;
  void operator()(GatheredCopy& copy) const;
  void operator()(GradientForms& gradients) const;
  template <class T>
  void operator()(std::vector<T>& views) const {
    for (T& view : views) (*this)(view);
  }

 private:
  const std::byte *begin_, *end_;
  std::byte* to_;
};

/// Slots: memory that items use one after the other, one item at a time. An item is a copy of a unit's weights or the
/// gradients of a unit; `Forms` are its tensors. Rotating items may use each of the rotating slots, any other item one
/// slot, which it may share with others. A slot is as large as the largest item that may use it. An item has the same
/// offsets in every slot, so it is laid out once: host memory grows as items plus slots.
template <class Forms>
class Slots {
 public:
  int slots() const { return static_cast<int>(slots_.size()); }
  /// Slots [0, rotating_slots()) are the rotating ones.
  int rotating_slots() const { return rotating_slots_; }
  /// The only slot that may hold an item; -1 for a rotating item.
  int own_slot(int item) const { return own_slot_[index(item)]; }
  int first_slot(int item) const { return std::max(own_slot(item), 0); }
  /// The forms of an item in the first slot that may hold it.
  const Forms& first_place(int item) const { return first_places_[index(item)]; }
  /// Moves views of an item's memory from the slot `slot` to the slot `to`, by move(const MoveViews&), and sets `slot`
  /// to `to`. Does nothing if they are there already.
  template <class Move>
  void move(int& slot, int to, const Move& move) const {
    if (slot == to) return;
    move(MoveViews(slots_[index(slot)], slots_[index(to)]));
    slot = to;
  }
  /// The forms of an item in `slot`: its own slot, or a rotating slot if it has none.
  Forms place(int slot, int item) const {
    Forms forms = first_place(item);
    int at = first_slot(item);
    move(at, slot, [&](const MoveViews& views) { views(forms); });
    return forms;
  }

 protected:
  using LayOut = std::function<Forms(int item)>;
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  /// Adds slots from `arena` for items [0, items): `most` rotating slots, but no more than rotating items, then a slot
  /// for each of `own`, then one for all of `shared`. lay_out(item) takes the item's memory from `arena`.
  void add(int items, const std::vector<int>& rotating, int most, const std::vector<int>& own,
           const std::vector<int>& shared, tensor::Arena& arena, const LayOut& lay_out) {
    first_places_.resize(index(items));
    own_slot_.assign(index(items), -1);
    const auto add_slot = [&](std::span<const int> of) {
      const std::size_t begin = arena.mark();
      tensor::Overlay memory(arena);
      for (const int item : of) memory.add([&] { first_places_[index(item)] = lay_out(item); });
      memory.close();
      slots_.push_back(arena.since(begin));
    };
    rotating_slots_ = std::min(most, static_cast<int>(rotating.size()));
    if (rotating_slots_ > 0) add_slot(rotating);
    while (slots() < rotating_slots_) slots_.push_back(arena.allocate(slots_.front().shape, slots_.front().dtype));
    for (const int item : own) {
      own_slot_[index(item)] = slots();
      add_slot({&item, 1});
    }
    for (const int item : shared) own_slot_[index(item)] = slots();
    if (!shared.empty()) add_slot(shared);
  }

 private:
  std::vector<int> own_slot_;          ///< by item
  std::vector<Forms> first_places_;    ///< by item
  std::vector<tensor::Tensor> slots_;  ///< as bytes
  int rotating_slots_ = 0;
};

/// The slots in which units are gathered. The items of these slots are copies of units: what one gather brings.
///
/// Layers rotate. Single-use units share one slot if there is one micro-batch, because they are in use one after the
/// other. Every other unit has a slot of its own, and so has every unit if reshard_after_forward is false or if the
/// unit needs no gather. Parameters that kernels read in the shards (WeightForms::gathers) take no memory.
///
/// Most units have one copy, whose id is the unit. A rotating unit has two copies if a parameter has a copy for each
/// pass: the forward copy, whose id is the unit, and the backward copy, which has the forms of both passes if
/// UnitShape::backward_reads_both. In slots that do not rotate, the one copy of a unit has the forms of both passes.
class GatherSlots : public Slots<GatheredCopy> {
 public:
  GatherSlots(const std::vector<UnitShape>& units, const std::vector<std::vector<WeightForms>>& weights,
              const Options& options, tensor::Arena& arena);

  int copies() const { return static_cast<int>(copies_.size()); }
  /// The copy that a visit uses.
  int copy_of(int unit, Pass pass) const { return pass == Pass::forward ? unit : backward_copy_[index(unit)]; }
  /// The copies of visits, in their order. Uses the memory of `copies` if it is large enough.
  std::vector<int> copies_of(std::span<const Visit> visits, std::vector<int> copies = {}) const;
  int unit_of(int copy) const { return copies_[index(copy)].unit; }

 private:
  struct Copy {
    int unit = 0;
    std::optional<Pass> only;  ///< the pass whose forms the copy has; none: both passes
  };
  std::vector<Copy> copies_;
  std::vector<int> backward_copy_;  ///< by unit
};

/// The slots in which gradients of units are summed. Units whose gradients are summed once before they are reduced
/// rotate: with one micro-batch, or if each micro-batch is reduced (Options::reduces_each). Every other unit has a slot
/// of its own.
class GradientSlots : public Slots<GradientForms> {
 public:
  GradientSlots(const std::vector<UnitShape>& units, const std::vector<std::vector<WeightForms>>& weights,
                const Options& options, tensor::Arena& arena);
};

/// All memory of the units of one rank, laid out once: what is kept of every parameter (WeightForms), the slots in
/// which units are gathered, and the slots in which gradients are summed. With one shard, gradients are summed in the
/// gradient shards, and a weight that kernels read in the format in which it is kept is not copied.
class UnitBuffers {
 public:
  /// lent[u], if there is one, is memory as bytes. The gradient shards of unit u lie there if they fit. The caller must
  /// not use this memory from the moment when all gradients of u are summed until the next step begins. With one shard,
  /// and if the shards hold sums from micro-batch to micro-batch (Options::reduces_each), no lent memory is used.
  /// Throws Error(failed) if parameters of a unit cannot be gathered and reduced at once.
  UnitBuffers(std::vector<UnitShape> units, const Options& options, tensor::ArenaSet& arenas,
              const std::vector<tensor::Tensor>& lent = {});

  const std::vector<UnitShape>& units() const { return units_; }
  const Options& options() const { return options_; }
  /// The forms of a unit's parameters, one entry for each parameter.
  const std::vector<WeightForms>& weights(int unit) const { return weights_[index(unit)]; }
  const GatherSlots& gather() const { return gather_; }
  const GradientSlots& gradients() const { return gradients_; }

  /// The number of ranks over which the unit is sharded, and over which its gradient shards are summed then.
  int shard_ranks(int unit) const { return options_.place.mesh().ranks(sharing(unit).sharded); }
  int sum_ranks(int unit) const { return options_.place.mesh().ranks(sharing(unit).summed()); }
  /// Whether the unit's gradients are reduced over ranks.
  bool reduces(int unit) const { return shard_ranks(unit) > 1 || sum_ranks(unit) > 1; }
  /// Whether the unit's gradients are reduced in each of several micro-batches.
  bool reduces_each(int unit) const { return options_.reduces_each(sharing(unit)); }
  base::Sharing sharing(int unit) const { return units_[index(unit)].sharing(); }
  /// Whether this rank counts the parameter in the norm of the gradients.
  bool counts(int unit, std::size_t parameter) const {
    return weights_[index(unit)][parameter].sharing.counts(options_.place);
  }

 private:
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }

  std::vector<UnitShape> units_;
  Options options_;
  std::vector<std::vector<WeightForms>> weights_;  ///< by unit, then by parameter
  GatherSlots gather_;
  GradientSlots gradients_;
};

}  // namespace shard8::fsdp
