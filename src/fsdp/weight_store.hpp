// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "comm/communicator.hpp"
#include "fsdp/gather_hooks.hpp"
#include "fsdp/gather_schedule.hpp"
#include "fsdp/gathered.hpp"
#include "fsdp/unit_buffers.hpp"
#include "profile/step_timer.hpp"
#include "tensor/exec.hpp"

namespace shard8::fsdp {

/// The schedule of the buffers of a run or a plan.
GatherSchedule make_schedule(const UnitBuffers& buffers);

/// The life of the units' weights: gathered ahead of use, given back after it.
class WeightStore {
 public:
  WeightStore(const UnitBuffers& buffers, const comm::Communicator& shard_group, profile::StepTimer& timer,
              GatherHooks hooks);

  /// Begins a step in which units are used in this order. Everything gathered before is stale.
  void begin_step(std::span<const Visit> visits);
  /// Starts the gathers that the first acquire() would start: as soon as the units of the first visits have
  /// the weights of this step.
  void gather_ahead();

  /// The weights of the next visit, which must be this one. Starts the gathers of the next visits and
  /// waits for this one's (phase gather_wait).
  GatheredUnit acquire(int unit, Pass pass);
  /// The weights of a unit that was acquired and not released.
  GatheredUnit in_use(int unit) const;
  /// The visit is over; the buffer may be used for another unit.
  void release(int unit);

  const GatherSchedule& schedule() const { return schedule_; }

 private:
  struct Slot {
    GatheredUnit unit;
    std::uint64_t generation = 0;
    bool ready = false;
    comm::Request request;
  };
  /// A copy's views in the slot where it was gathered last. A copy is gathered in one slot at a time, so these
  /// lists are moved from slot to slot and a gather allocates nothing.
  struct Copy {
    int slot = 0;
    std::vector<Gathered> gathered;
    std::vector<tensor::Tensor> travelling;
    std::vector<GatherHooks::Own> before;  ///< what the hooks are given
    std::vector<GatherHooks::Arrived> after;
  };
  Copy make_copy(int copy) const;
  Copy& move_copy(const GatherSchedule::Start& gather);
  void start(const GatherSchedule::Start& gather);
  void finish(const GatherSchedule::Start& gather);

  const UnitBuffers& buffers_;
  const comm::Communicator& shard_group_;
  profile::StepTimer& timer_;
  GatherHooks hooks_;
  GatherSchedule schedule_;
  std::vector<Slot> slots_;
  std::vector<Copy> copies_;
  std::vector<int> held_;    ///< by unit: its copy in use, or -1
  std::vector<int> visits_;  ///< of the step, as copies
};

}  // namespace shard8::fsdp
