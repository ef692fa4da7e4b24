// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fp8/cast_buffer.hpp"
#include "model/context.hpp"

namespace shard8::model {

/// The two collectives between blocks and column- or row-parallel layers (sequence parallelism,
/// Korthikanti et al. 2022). Both are timed as tensor_comm and do nothing in a group of one.

/// Gathers the tokens of all ranks, (T, N), into `whole` and returns them. In a group of one rank it returns `local`
/// (T_local, N).
tensor::Tensor gather_tokens(const Context& context, const tensor::Tensor& whole, const tensor::Tensor& local);

/// The same for an operand that may be in FP8. Its bytes and block scales are gathered into `whole_cast`, as one call;
/// a scale of the whole matrix is not, since all ranks have the same one.
tensor::Operand gather_tokens(const Context& context, const tensor::Tensor& whole, const fp8::CastBuffer& whole_cast,
                              const tensor::Operand& local);

/// local (T_local, N) = this rank's tokens of the sum of `partial` (T, N) over the group, plus `addend` (T_local, N)
/// unless it is empty. `addend` may be `local`. In a group of one rank `partial` must be the memory of `local`, and
/// `addend` empty.
void reduce_scatter_tokens(const Context& context, const tensor::Tensor& local, const tensor::Tensor& partial,
                           const tensor::Tensor& addend = {});

/// The matrix to write before reduce_scatter_tokens sums it over the group: in `scratch`, or `local` in a group of one
/// rank.
tensor::Tensor partial_of(const Context& context, const tensor::Tensor& scratch, const tensor::Tensor& local);

}  // namespace shard8::model
