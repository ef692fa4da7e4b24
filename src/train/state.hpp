// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fp8/scaling_state.hpp"
#include "fsdp/unit_buffers.hpp"
#include "model/activations.hpp"
#include "optim/adamw.hpp"
#include "tensor/arena.hpp"
#include "train/setup.hpp"

namespace shard8::train {

/// All memory of a rank's training, laid out in this one place. With measuring arenas it is the
/// plan; with arenas of the plan's sizes it is the run.
struct State {
  tensor::ArenaSet arenas;
  model::Activations activations;
  fsdp::UnitBuffers units;  ///< gradient shards of a layer may lie where its activations were
  fp8::ScalingState scaling;
  optim::Adamw optimizer;
  tensor::Tensor squares;  ///< of the gradients, their sum, a double as 8 bytes of u8

  State(const Setup& setup, tensor::ArenaSet arenas);
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

/// Bytes that State takes for this setup, by kind.
tensor::MemoryBytes state_bytes(const Setup& setup);

/// Bytes for comm::Communicator::reduce_memory of the shard group: what the largest unit's gradients have use
/// for, but not so much that what else is done with memory would suffer.
std::size_t reduce_memory_bytes(const Setup& setup, const fsdp::UnitBuffers& buffers);

}  // namespace shard8::train
