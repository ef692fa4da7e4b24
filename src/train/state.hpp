// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fp8/scaling_state.hpp"
#include "fsdp/unit_buffers.hpp"
#include "model/activations.hpp"
#include "optim/adamw.hpp"
#include "tensor/arena_set.hpp"
#include "train/setup.hpp"

namespace shard8::train {

/// All memory of a rank's training, laid out in this one place. With measuring arenas it is the
/// plan; with arenas of the plan's sizes it is the run.
struct State {
  tensor::ArenaSet arenas;
  fsdp::UnitBuffers units;
  fp8::ScalingState scaling;
  model::Activations activations;
  optim::Adamw optimizer;
  tensor::Tensor squares;  ///< of the gradients, their sum, a double as 8 bytes of u8

  State(const Setup& setup, tensor::ArenaSet arenas);
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

/// Bytes that State takes for this setup, by kind.
tensor::MemoryBytes state_bytes(const Setup& setup);

}  // namespace shard8::train
