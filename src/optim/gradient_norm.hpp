// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/communicator.hpp"
#include "fsdp/unit_buffers.hpp"
#include "operation/executor.hpp"

namespace shard8::optim {

/// [unit][parameter]: whether every tensor rank holds the parameter.
using Replicated = std::vector<std::vector<bool>>;

/// The gradient shards of all parameters that every tensor rank holds.
std::vector<tensor::Tensor> replicated_gradients(const fsdp::UnitBuffers& buffers, const Replicated& replicated);
/// Sums `gradients` over the tensor group, in place and in one call. Each tensor rank has the gradients of its own
/// tokens.
void sum_replicated_gradients(operation::Executor& executor, std::span<const tensor::Tensor> gradients,
                              const comm::Communicator& tensor_group);

/// Which parameters of a unit add_squares() counts. `in_parts`: parameters that are sharded over the tensor ranks.
/// `shared`: parameters that every tensor rank holds; only tensor rank 0 counts them.
enum class Held : std::uint8_t { in_parts, shared };
/// total (a double as 8 bytes of u8) += the squares of the unit's reduced gradients that `held` selects.
void add_squares(operation::Executor& executor, const tensor::Tensor& total, const fsdp::UnitBuffers& buffers,
                 const Replicated& replicated, int unit, Held held, int tensor_rank);

/// The 2-norm of all reduced gradients: the square root of the sum of `total` over `model_group`, whose ranks
/// (shard × tensor) hold every parameter once. Every rank gets the same value. The wait is in phase reduce_wait.
double norm_of(operation::Executor& executor, const tensor::Tensor& total, const comm::Communicator& model_group);

}  // namespace shard8::optim
