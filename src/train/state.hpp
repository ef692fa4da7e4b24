// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "checkpoint/state_tensor.hpp"
#include "fp8/scaling_state.hpp"
#include "fsdp/unit_buffers.hpp"
#include "model/activations.hpp"
#include "optim/adamw.hpp"
#include "tensor/arena.hpp"
#include "train/setup.hpp"

namespace shard8::train {

/// All memory of a rank's training. One constructor lays the memory out for a plan and for a run: in measuring arenas
/// it finds the sizes for the plan, in arenas of these sizes (state_bytes()) it gives the run its memory. Nothing is
/// filled.
struct State {
  tensor::ArenaSet arenas;
  model::Activations activations;
  fp8::ScalingState scaling;
  fsdp::UnitBuffers units;  ///< gradient shards of a layer may share memory with its kept activations
  optim::Adamw optimizer;
  /// Exact sums, (units, kernels::kExactTotalBytes) u8. Row u of `squares` sums the squares of unit u's gradients, row
  /// u of `weight_squares` those of its weights kept in FP8; weight_squares is empty if the deck keeps none.
  /// `all_squares` is both, in this order.
  tensor::Tensor all_squares, squares, weight_squares;

  State(const Setup& setup, tensor::ArenaSet arenas);
  /// Lays the memory out with a workspace of `workspace` bytes in place of workspace_bytes().
  State(const Setup& setup, tensor::ArenaSet arenas, std::size_t workspace);
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

/// Bytes of a State for this setup, by kind of memory.
tensor::MemoryBytes state_bytes(const Setup& setup);

/// Bytes of kernels::Workspace::memory: the most that any operation of a step needs. Found by recording a layer of
/// each kind, the embedding and the head.
std::size_t workspace_bytes(const Setup& setup);

/// Bytes for comm::Communicator::reduce_memory of the shard group: as many as the reduction of the largest unit's
/// gradients can use, at most 256 MiB.
std::size_t reduce_memory_bytes(const Setup& setup, const fsdp::UnitBuffers& buffers);
/// Bytes for comm::Communicator::all_reduce_memory of the replicate group: as many as the sum of the largest unit's
/// gradient shards over the replicas can use.
std::size_t all_reduce_memory_bytes(const Setup& setup, const fsdp::UnitBuffers& buffers);

/// Memory in which the ranks of the tensor group address each other's matrices (docs/overlap.md), in addition to the
/// arenas.
struct UserBuffers {
  /// On hosts, the arguments of comm::Communicator::parts_memory; 0 if no exchange goes by parts.
  std::size_t gather = 0, scatter = 0;
  /// On devices, the argument of comm::Communicator::reduce_memory of the tensor group; 0 if no exchange overlaps.
  std::size_t reduce = 0;

  int ranks = 1;  ///< in the tensor group

  /// Bytes of a rank.
  std::size_t bytes() const;
};
UserBuffers user_buffers(const Setup& setup);

/// The persistent tensors: a run that starts with them goes on from the end of a step as if it had never stopped. With
/// each comes the part that this rank holds. In the order of the units: masters, moments, weights kept in FP8 with
/// their scales; then the scaling state. The names are Hugging Face's. A fused weight is several tensors, a tied table
/// is one, and the inverse scale of a fused weight is listed under each of its names. Padding rows are in no part.
///
/// Not listed is what every step computes for itself: activations, gradients, amaxes of a step, counts for the report.
/// With a state of measuring arenas the parts have no data. Parts are views of `state`, which must outlive them.
///
/// StateTensor::group is the unit, or scaling_group() for tensors of all matrices.
std::vector<checkpoint::StateTensor> state_tensors(const Setup& setup, State& state);

/// The group of the tensors that a step changes when all units have been updated.
int scaling_group(const Setup& setup);

}  // namespace shard8::train
