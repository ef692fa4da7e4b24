// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace shard8::fsdp {

/// Decides which copy (see GatherBuffers) each slot holds and when each gather starts. It has no memory of weights and
/// does not communicate. Every rank takes the same decisions, and so does `plan`, which uses this class, too.
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
  /// Takes `copy` into use. It must be the copy of the next visit. Returns the gathers to start now, in this order: the
  /// gather of `copy` if it has not started, then the gathers of the next visits. The result is valid until the next
  /// call of ahead() or acquire(). Throws Error(failed) if `copy` is not the next, or if no slot is free for it.
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

}  // namespace shard8::fsdp
