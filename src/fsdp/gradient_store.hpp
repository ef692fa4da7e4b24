// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "comm/mesh.hpp"
#include "fsdp/unit_buffers.hpp"
#include "operation/executor.hpp"

namespace shard8::fsdp {

/// How many units may be reduced at the same time. In addition, as many sums over replicas may be in flight. The limit
/// bounds the memory that reductions need.
inline constexpr int kReductionsInFlight = 2;

/// The gradients of the units during a step. Each rank sums the unsharded gradients of a unit over the micro-batches.
/// Then the gradients are reduce-scattered into the gradient shards while the backward pass of other units runs. With
/// Options::sharded_sums the gradients of each micro-batch are reduce-scattered, while the next one's forward runs as
/// well, and summed in the gradient shards. With hybrid sharding the shards are all-reduced over the replicas, once a
/// step.
class GradientStore {
 public:
  /// The arguments must live longer than this object. A unit is reduced in the groups of `mesh` of its base::Sharing.
  GradientStore(operation::Executor& executor, const UnitBuffers& buffers, const comm::Mesh& mesh);

  /// The unsharded gradients of a unit.
  struct Gradients {
    std::span<const tensor::Tensor> whole;  ///< by parameter: (rows, cols), or (rows) for a vector; fp32, no padding
    bool accumulate = false;                ///< false: overwrite the gradients of ParameterShape::gradient_overwritten
  };
  /// The buffers in which the caller sums the gradients of `unit` in this micro-batch. In the first call since they
  /// were reduced, gradients that are not overwritten, and padding, are cleared. Waits for an earlier reduction that
  /// uses the slot (phase reduce_wait).
  Gradients begin(int unit);
  /// Starts the reduction of `unit`, if each micro-batch is reduced or this is the step's last one. The caller must
  /// have added all gradients of this micro-batch. Waits for the oldest reduction if kReductionsInFlight are in flight
  /// (phase reduce_wait). Without ranks to reduce over, the call changes only what the next begin() does.
  void reduce(int unit, bool last_micro_batch);
  /// Waits for the reduction of `unit`, if it is in flight (phase reduce_wait). After the call WeightForms::gradient
  /// of `unit` are the gradients of the step. Waits are short if units are finished in the order in which they were
  /// reduced.
  void finish(int unit);
  /// Waits for all reductions. No unit holds a slot afterwards.
  void finish();

 private:
  struct Slot {
    int unit = -1;                   ///< whose gradients the slot holds, or -1
    bool first = true, last = true;  ///< of the step's reductions of the unit: the one under way
    operation::Issued<comm::Request> scatter, replica_sum;
  };
  /// Where the gradients of a unit lie: the slot in which they were summed last, and views of it, made once.
  struct Place {
    int slot = 0;
    GradientForms forms;
    std::vector<tensor::Tensor> whole;    ///< Gradients::whole
    std::vector<tensor::Tensor> cleared;  ///< what the first begin() clears
    std::vector<tensor::Tensor> shards;   ///< WeightForms::gradient
    bool begun = false;                   ///< begin() was called since the unit was reduced
    bool summing = false;                 ///< an earlier micro-batch of this step was reduced
  };
  Place make_place(int unit) const;
  int slot_of(int unit);
  void complete(int slot);
  /// Adds what a reduction of one of several micro-batches brought to the gradient shards of the unit. `first`: the
  /// reduction is the step's first one, with which the shards begin.
  void add_received(int unit, bool first);
  void finish_replica_sums();
  bool in_fp32() const { return buffers_.options().reduce == tensor::DType::fp32; }
  const Place& place(int unit) const { return places_[static_cast<std::size_t>(unit)]; }
  /// Starts the sum of `shards`, gradient shards of `unit`, over the ranks with equal shards.
  operation::Issued<comm::Request> sum(int unit, const std::vector<tensor::Tensor>& shards);
  void cast(const tensor::Tensor& to, const tensor::Tensor& from);
  void add(const tensor::Tensor& sum, const tensor::Tensor& from);

  operation::Executor& executor_;
  const UnitBuffers& buffers_;
  const comm::Mesh& mesh_;
  std::vector<Slot> slots_;
  std::vector<Place> places_;                                   ///< by unit
  std::vector<int> in_flight_;                                  ///< slots, oldest first
  std::vector<operation::Issued<comm::Request>> replica_sums_;  ///< oldest first
  std::vector<comm::Communicator::ReduceScatterItem> items_;    ///< of the reduction that is being started
  int next_rotating_ = 0;
};

}  // namespace shard8::fsdp
