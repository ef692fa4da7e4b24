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

/// [unit][parameter]: whether every tensor rank holds the parameter.
using Replicated = std::vector<std::vector<bool>>;

/// The gradient shards of all parameters that every tensor rank holds.
std::vector<tensor::Tensor> replicated_gradients(const fsdp::UnitBuffers& buffers, const Replicated& replicated);
/// Sums these gradients over the tensor group in one call: each rank has those of its own tokens.
void sum_replicated_gradients(std::span<const tensor::Tensor> gradients, const comm::Communicator& tensor_group);

/// Which parameters of a unit add_squares() counts. `in_parts`: parameters of which each tensor rank holds its part.
/// `shared`: parameters that every tensor rank holds; tensor rank 0 alone counts them.
enum class Held : std::uint8_t { in_parts, shared };
/// total (a double as 8 bytes of u8) += the squares of the unit's reduced gradients that `held` selects.
void add_squares(const tensor::Exec& exec, const tensor::Tensor& total, const fsdp::UnitBuffers& buffers,
                 const Replicated& replicated, int unit, Held held, int tensor_rank);

/// The 2-norm of all reduced gradients, the same on every rank: the square root of the sum of the totals of
/// `model_group`, whose ranks (shard × tensor) hold every parameter once. The wait is timed as reduce_wait.
double norm_of(const tensor::Exec& exec, const tensor::Tensor& total, const comm::Communicator& model_group,
               profile::StepTimer& timer);

}  // namespace shard8::optim
