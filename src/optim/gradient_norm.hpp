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

/// The gradient shards of all parameters of which ranks of base::kSameSequences hold copies.
std::vector<tensor::Tensor> replicated_gradients(const fsdp::UnitBuffers& buffers);
/// Sums `gradients` over the group of base::kSameSequences, in place and in one call. Each rank has the gradients of
/// its own tokens.
void sum_replicated_gradients(operation::Executor& executor, std::span<const tensor::Tensor> gradients,
                              const comm::Communicator& group);

/// Which parameters of a unit add_squares() counts. `in_parts`: parameters that are cut over the ranks of
/// base::kSameSequences. `shared`: parameters of which these ranks hold copies.
enum class Held : std::uint8_t { in_parts, shared };
/// total (kernels::kExactTotalBytes of u8) += the squares of the unit's reduced gradients that `which` selects and this
/// rank counts (fsdp::UnitBuffers::counts).
void add_squares(operation::Executor& executor, const tensor::Tensor& total, const fsdp::UnitBuffers& buffers, int unit,
                 Held which);

/// The 2-norm of all reduced gradients: the square root of the sum of `total` over `model_group`, whose ranks count
/// every parameter once. The sum is rounded once, at its end, so the norm does not depend on how rows are cut over
/// ranks. Every rank gets the same value. The wait is in phase reduce_wait.
double norm_of(operation::Executor& executor, const tensor::Tensor& total, const comm::Communicator& model_group);

}  // namespace shard8::optim
