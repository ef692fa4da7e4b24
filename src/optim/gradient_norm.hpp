// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "comm/communicator.hpp"
#include "fsdp/unit_buffers.hpp"
#include "profile/step_timer.hpp"
#include "tensor/exec.hpp"

namespace shard8::optim {

/// Which parameters every tensor rank holds, [unit][parameter].
using Replicated = std::vector<std::vector<bool>>;

/// Sums over the tensor group the gradient shards of what every tensor rank holds (each rank has
/// its own tokens' part), all of the model as one call.
void sum_replicated_gradients(const fsdp::UnitBuffers& buffers, const Replicated& replicated,
                              const comm::Communicator& tensor_group);

/// The global 2-norm of the reduced gradients, the same on every rank. `model_group` holds every
/// parameter once (shard × tensor); what tensor ranks share is counted on tensor rank 0 alone. The
/// sums of squares are timed as optimizer, the wait for other ranks' as reduce_wait.
double gradient_norm(const tensor::Exec& exec, const fsdp::UnitBuffers& buffers, const Replicated& replicated,
                     const comm::Communicator& model_group, int tensor_rank, profile::StepTimer& timer);

}  // namespace shard8::optim
