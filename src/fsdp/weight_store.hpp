// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "comm/mesh.hpp"
#include "fsdp/unit_buffers.hpp"
#include "operation/executor.hpp"

namespace shard8::fsdp {

/// Decides which copy (see GatherBuffers) each slot holds and when each gather starts. The schedule has no memory of
/// weights and does not communicate. Every rank takes the same decisions, and so does `plan`, which uses this class,
/// too.
///
/// The order of use in a whole step is known before the step. A gather takes a slot that is not in use: an empty slot,
/// otherwise the slot whose copy is needed latest, but no slot whose copy is needed sooner than the copy to be gathered
/// (Belady 1966). A copy that is still in its slot is not gathered again.
class GatherSchedule {
 public:
  /// own_slot[c] is the only slot that may hold copy c, or -1: any of [0, rotating_slots) may. Several copies may have
  /// the same own slot. `slots` counts all slots. `prefetch`: how many of the next visits are gathered ahead.
  GatherSchedule(std::vector<int> own_slot, int slots, int rotating_slots, int prefetch);

  /// Begins a step that uses copies in the order of `visits`. What was gathered before is stale, so all slots are
  /// empty. Throws Error(failed) if a copy is in use.
  void begin_step(const std::vector<int>& visits);

  struct Start {
    int copy, slot;
  };
  /// Starts the gathers of the first visits early: the ones that the first acquire() of the step would return. The
  /// result is valid until the next call of ahead() or acquire().
  std::span<const Start> ahead();
  /// Takes `copy` into use. `copy` must be the copy of the next visit. Returns the gathers to start now, in this order:
  /// the gather of `copy` if it has not started, then the gathers of the next visits. The result is valid until the
  /// next call of ahead() or acquire(). Throws Error(failed) if `copy` is not the next, or if no slot is free for it.
  std::span<const Start> acquire(int copy);
  /// Ends the use of `copy`, so that a gather may take its slot. Throws Error(failed) if `copy` is not in use.
  void release(int copy);

  /// The slot that holds a copy whose gather has started; -1 if there is none.
  int slot_of(int copy) const { return slot_of_.at(static_cast<std::size_t>(copy)); }
  bool in_use(int copy) const;

 private:
  struct Slot {
    int copy = -1;
    bool in_use = false;
  };
  /// The next visit of `copy`; visits_.size() if there is none.
  std::size_t next_use(int copy) const { return next_use_.at(static_cast<std::size_t>(copy)); }
  int choose_slot(int copy) const;
  bool start(int copy);
  void start_next(std::size_t count);

  std::vector<int> own_slot_;  ///< by copy
  std::vector<Slot> slots_;
  int rotating_slots_, prefetch_;
  std::vector<int> slot_of_;            ///< by copy
  std::vector<int> visits_;             ///< the copy of each visit
  std::vector<std::size_t> following_;  ///< by visit: the next visit of the same copy
  std::vector<std::size_t> next_use_;   ///< by copy: its first visit from cursor_ on
  std::vector<Start> starts_;
  std::size_t cursor_ = 0;  ///< the next visit
};

/// How the owner of the weights writes what a gather transfers and casts what arrived. WeightStore calls each function
/// at most once a gather, with the parameters that need it, in increasing order. WeightStore does not call a function
/// that no parameter needs.
struct GatherHooks {
  /// A parameter with Source::hook. `communicated`: this rank's rows of the form `communicated`, padding included,
  /// which `before` must write.
  struct Own {
    int parameter = 0;
    Copies communicated;
  };
  std::function<void(int unit, std::span<const Own> own)> before;

  /// A parameter that is converted (WeightForms::converted). `communicated`: what arrived, without padding. `read`:
  /// what kernels read, which `after` must write.
  struct Arrived {
    int parameter = 0;
    Copies communicated, read;
  };
  std::function<void(int unit, std::span<const Arrived> arrived)> after;
};

/// The schedule of gathers into UnitBuffers::gather(), for a run or a plan.
GatherSchedule make_schedule(const UnitBuffers& buffers);

/// The gathered weights of the units during a step. Starts gathers before their use and waits for them.
class WeightStore {
 public:
  /// `executor`, `buffers` and `mesh` must live longer than this object. A unit is gathered in the group of `mesh` over
  /// which it is sharded.
  WeightStore(operation::Executor& executor, const UnitBuffers& buffers, const comm::Mesh& mesh, GatherHooks hooks);

  /// Begins a step that uses units in the order of `visits`. What was gathered before is stale. Throws Error(failed) if
  /// a unit is in use.
  void begin_step(std::span<const Visit> visits);
  /// Starts the gathers that the first acquire() of the step would start. The shards of these units must have the
  /// weights of this step.
  void gather_ahead();

  /// Waits for the gathers under way. The units of these gathers can be acquired afterwards as before.
  void wait();

  /// The weights of `unit`, by parameter. `unit` must be the unit of the next visit. Starts the gathers of the next
  /// visits and waits for the gather of `unit` (phase gather_wait). Throws Error(failed) if it is not the next visit,
  /// if the unit is in use, or if no slot is free.
  std::span<const GatheredWeight> acquire(int unit, Pass pass);
  /// The weights of a unit that was acquired and not released. Throws Error(failed) for any other unit.
  std::span<const GatheredWeight> in_use(int unit) const;
  /// Ends the visit, so that a gather may take the slot. Throws Error(failed) if the unit is not in use.
  void release(int unit);

  const GatherSchedule& schedule() const { return schedule_; }

 private:
  struct Slot {
    std::uint64_t generation = 0;  ///< changes with every gather into the slot and every step
    bool ready = false;            ///< the gather is complete and converted
    operation::Issued<comm::Request> gather;
  };
  /// A copy in the slot into which it was gathered last, as its gathers need it. A copy is in one slot at a time, so
  /// its views are made once and moved from slot to slot: a gather allocates nothing and makes no view.
  struct Copy {
    int unit = 0, slot = 0;
    base::AxisSet sharded{};                       ///< the unit's base::Sharing::sharded
    int ranks = 1;                                 ///< over which the unit is sharded
    std::vector<GatheredWeight> read;              ///< GatheredCopy::read
    std::vector<tensor::Tensor> transferred, own;  ///< as in GatheredCopy
    std::vector<GatherHooks::Own> before;          ///< for the hook before the gather
    std::vector<GatherHooks::Arrived> after;       ///< for the hook after the gather
  };
  Copy make_copy(int id) const;
  Copy& copy(int id) { return copies_[static_cast<std::size_t>(id)]; }
  void start(const GatherSchedule::Start& gather);
  void finish(const GatherSchedule::Start& gather);

  operation::Executor& executor_;
  const UnitBuffers& buffers_;
  const comm::Mesh& mesh_;
  GatherHooks hooks_;
  GatherSchedule schedule_;
  std::vector<Slot> slots_;
  std::vector<Copy> copies_;
  std::vector<int> copy_in_use_;  ///< by unit; -1: the unit is not in use
  std::vector<int> visits_;       ///< the copy of each visit of the step
};

}  // namespace shard8::fsdp
