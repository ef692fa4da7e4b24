// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "comm/communicator.hpp"
#include "fsdp/unit_buffers.hpp"
#include "profile/step_timer.hpp"
#include "tensor/exec.hpp"

namespace shard8::fsdp {

/// Units whose gradients are reduced at the same time.
inline constexpr int kReductionsInFlight = 2;

/// The life of the units' gradients: summed whole on each rank over the micro-batches, then
/// reduce-scattered into gradient shards behind the backward pass of earlier units, then (hybrid
/// sharding) all-reduced over the replicas. At most kReductionsInFlight units are being reduced at a
/// time, which bounds the memory that they need.
class GradientStore {
 public:
  GradientStore(const tensor::Exec& exec, const UnitBuffers& buffers, const comm::Communicator& shard_group,
                const comm::Communicator& replicate_group, profile::StepTimer& timer);

  struct Gradients {
    std::span<const tensor::Tensor> whole;  ///< (rows, cols) fp32 views without padding
    bool accumulate = false;                ///< false: parameters marked gradient_overwritten hold nothing yet
  };
  /// Where to sum the gradients of `unit` in this micro-batch; the first time in a step what is not
  /// overwritten is cleared. Waits for an earlier reduction that uses the buffer (reduce_wait).
  Gradients begin(int unit, bool first_micro_batch);
  /// All contributions of this step are in: starts the reduction.
  void reduce(int unit);
  /// Waits for the reduction of `unit`, if there is one (reduce_wait); after it UnitBuffers::gradient() of
  /// it are the step's gradients. Units are best asked for in the order in which they were reduced.
  void finish(int unit);
  /// Waits for everything.
  void finish();

 private:
  struct Slot {
    int unit = -1;
    comm::Request scatter, replica_sum;
    std::vector<tensor::Tensor> view;
  };
  int slot_of(int unit);
  void complete(int slot);
  void finish_replica_sums();
  const std::vector<tensor::Tensor>& reduced(int slot) const;

  const tensor::Exec& exec_;
  const UnitBuffers& buffers_;
  const comm::Communicator& shard_group_;
  const comm::Communicator& replicate_group_;
  profile::StepTimer& timer_;
  std::vector<Slot> slots_;
  std::vector<int> in_flight_;                                ///< slots, oldest first
  std::vector<comm::Request> replica_sums_;                   ///< oldest first
  std::vector<comm::Communicator::ReduceScatterItem> items_;  ///< of one reduction, while it is started
  int next_rotating_ = 0;
};

}  // namespace shard8::fsdp
