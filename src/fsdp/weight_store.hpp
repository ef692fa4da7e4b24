// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "comm/communicator.hpp"
#include "fsdp/gather_schedule.hpp"
#include "fsdp/unit_buffers.hpp"
#include "profile/step_timer.hpp"

namespace shard8::fsdp {

/// What the owner of the bytes does around a gather. `own` are this rank's rows of each travelling
/// tensor, to be filled; `travel` and `compute` are all rows after they arrived.
struct GatherHooks {
  std::function<void(int unit, std::span<const tensor::Tensor> own)> before;
  std::function<void(int unit, std::span<const tensor::Tensor> travel, std::span<const tensor::Tensor> compute)> after;
};

/// The schedule of the buffers of a run or a plan.
GatherSchedule make_schedule(const UnitBuffers& buffers);

/// The life of the units' weights: gathered ahead of use, given back after it.
class WeightStore {
 public:
  WeightStore(const UnitBuffers& buffers, const comm::Communicator& shard_group, profile::StepTimer& timer,
              GatherHooks hooks);

  /// Begins a step in which units are used in this order. Everything gathered before is stale.
  void begin_step(std::vector<int> visits) { schedule_.begin_step(std::move(visits)); }

  /// The weights of the next visit, which must be `unit`; (rows, cols) views without padding.
  /// Starts the gathers of the next units and waits for this one's (phase gather_wait).
  std::span<const tensor::Tensor> acquire(int unit);
  /// The weights of a unit that was acquired and not released.
  std::span<const tensor::Tensor> in_use(int unit) const;
  /// The visit is over; the buffer may be used for another unit.
  void release(int unit) { schedule_.release(unit); }

  const GatherSchedule& schedule() const { return schedule_; }

 private:
  struct Slot {
    bool ready = false;
    comm::Request request;
    std::vector<tensor::Tensor> view;
  };
  void start(const GatherSchedule::Start& gather);

  const UnitBuffers& buffers_;
  const comm::Communicator& shard_group_;
  profile::StepTimer& timer_;
  GatherHooks hooks_;
  GatherSchedule schedule_;
  std::vector<Slot> slots_;
};

}  // namespace shard8::fsdp
