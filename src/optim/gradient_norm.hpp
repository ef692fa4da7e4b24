// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/communicator.hpp"
#include "fsdp/unit_buffers.hpp"
#include "profile/step_timer.hpp"
#include "tensor/exec.hpp"

namespace shard8::optim {

/// Which parameters every tensor rank holds, [unit][parameter].
using Replicated = std::vector<std::vector<bool>>;

/// The gradient shards of what every tensor rank holds, of the whole model.
std::vector<tensor::Tensor> replicated_gradients(const fsdp::UnitBuffers& buffers, const Replicated& replicated);
/// Sums them over the tensor group (each rank has its own tokens' part) as one call.
void sum_replicated_gradients(std::span<const tensor::Tensor> gradients, const comm::Communicator& tensor_group);

/// total (a double as 8 bytes of u8) += the squares of a unit's reduced gradients: of what tensor ranks
/// hold each their part of, or, on tensor rank 0 alone, of what they share.
enum class Held : std::uint8_t { in_parts, shared };
void add_squares(const tensor::Exec& exec, const tensor::Tensor& total, const fsdp::UnitBuffers& buffers,
                 const Replicated& replicated, int unit, Held held, int tensor_rank);

/// The global 2-norm of the reduced gradients, the same on every rank: the square root of the sum of all ranks'
/// totals. `model_group` holds every parameter once (shard × tensor). The wait is timed as reduce_wait.
double norm_of(const tensor::Exec& exec, const tensor::Tensor& total, const comm::Communicator& model_group,
               profile::StepTimer& timer);

}  // namespace shard8::optim
