// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace shard8::fsdp {

/// Which copy of which unit (GatherBuffers) lies in which gather buffer, and which gathers to start
/// when: pure bookkeeping, the same on every rank, used by a run and by `plan` alike.
///
/// The order of use of a whole step is known from the start. A rotating buffer goes to the copy
/// that is needed soonest; one whose buffer nobody took since its last use is not gathered again.
class GatherSchedule {
 public:
  /// own_slot[c] is the only buffer of copy c, which others may have, too, or -1: it takes one of [0, rotating_slots).
  GatherSchedule(std::vector<int> own_slot, int slots, int rotating_slots, int prefetch);

  /// Begins a step in which copies are used in this order; whatever was gathered before is stale.
  void begin_step(const std::vector<int>& visits);

  struct Start {
    int copy, slot;
  };
  /// The gathers that the first acquire() would start, to start sooner. They hold until the next call.
  std::span<const Start> ahead();
  /// The next visit, which must be of `copy`. Returns the gathers to start now, in this order: its
  /// own if it was not gathered ahead, then those of the next visits. They hold until the next call.
  std::span<const Start> acquire(int copy);
  void release(int copy);

  /// Where a gathered copy lies; -1 if nowhere.
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

  std::vector<int> own_slot_;
  std::vector<Slot> slots_;
  int rotating_slots_, prefetch_;
  std::vector<int> slot_of_;  ///< by copy
  std::vector<int> visits_;
  std::vector<std::size_t> following_;  ///< by visit: the next one of the same copy
  std::vector<std::size_t> next_use_;   ///< by copy, from the cursor on
  std::vector<Start> starts_;
  std::size_t cursor_ = 0;
};

}  // namespace shard8::fsdp
