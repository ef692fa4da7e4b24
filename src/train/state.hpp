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

/// All memory of a rank's training, laid out in this one constructor. Measuring arenas give the plan; arenas of the
/// plan's sizes give the run's memory.
struct State {
  tensor::ArenaSet arenas;
  model::Activations activations;
  fsdp::UnitBuffers units;  ///< gradient shards of a layer may share memory with its activations
  fp8::ScalingState scaling;
  optim::Adamw optimizer;
  tensor::Tensor squares;  ///< the sum of the gradients' squares: a double as 8 bytes of u8

  State(const Setup& setup, tensor::ArenaSet arenas);
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

/// Bytes of State for this setup, by kind of memory.
tensor::MemoryBytes state_bytes(const Setup& setup);

/// Bytes for comm::Communicator::reduce_memory of the shard group: as many as the gradients of the largest unit can
/// use, at most 256 MiB.
std::size_t reduce_memory_bytes(const Setup& setup, const fsdp::UnitBuffers& buffers);

}  // namespace shard8::train
