// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

namespace shard8::fsdp {

/// Which unit lies in which gather buffer, and which gathers to start when: pure bookkeeping, the
/// same on every rank, used by a run and by `plan` alike.
///
/// The order of use of a whole step is known from the start. A rotating buffer goes to the unit
/// that is needed soonest; one whose buffer nobody took since its last use is not gathered again.
class GatherSchedule {
 public:
  /// own_slot[u] is unit u's own buffer, or -1: it takes one of [0, rotating_slots).
  GatherSchedule(std::vector<int> own_slot, int slots, int rotating_slots, int prefetch);

  /// Begins a step in which units are used in this order; whatever was gathered before is stale.
  void begin_step(std::vector<int> visits);

  struct Start {
    int unit, slot;
  };
  /// The next visit, which must be `unit`. Returns the gathers to start now, in this order: its own
  /// if it was not gathered ahead, then those of the next units.
  std::vector<Start> acquire(int unit);
  void release(int unit);

  /// Where a gathered unit lies; -1 if nowhere.
  int slot_of(int unit) const;
  bool in_use(int unit) const;
  /// Largest number of units that lay in rotating buffers at once.
  int peak_rotating_units() const { return peak_rotating_units_; }

 private:
  struct Slot {
    int unit = -1;
    bool in_use = false;
  };
  std::size_t next_use(int unit) const;
  int choose_slot(int unit) const;
  bool start(int unit, std::vector<Start>& starts);

  std::vector<int> own_slot_;
  std::vector<Slot> slots_;
  int rotating_slots_, prefetch_;
  std::vector<int> visits_;
  std::size_t cursor_ = 0;
  int peak_rotating_units_ = 0;
};

}  // namespace shard8::fsdp
