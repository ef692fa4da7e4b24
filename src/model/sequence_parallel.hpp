// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fp8/cast_buffer.hpp"
#include "model/context.hpp"

namespace shard8::model {

/// The two collectives between blocks and column- or row-parallel layers (sequence parallelism,
/// Korthikanti et al. 2022). Both are timed as tensor_comm and do nothing in a group of one.

/// All tokens of the group, (T, N): gathered into `whole`, or `local` (T_local, N) itself when the
/// group has one rank.
tensor::Tensor gather_tokens(const Context& context, const tensor::Tensor& whole, const tensor::Tensor& local);

/// The same of an operand, plain or in FP8: then its bytes and block scales travel, as one call, to
/// `whole_cast`; a scale of the whole matrix is the group's already.
tensor::Operand gather_tokens(const Context& context, const tensor::Tensor& whole, const fp8::CastBuffer& whole_cast,
                              const tensor::Operand& local);

/// local (T_local, N) = this rank's tokens of the sum over the group of `partial` (T, N), and the addend like
/// local, if there is one, which may be local. With one rank, partial must be local's own memory, and no addend.
void reduce_scatter_tokens(const Context& context, const tensor::Tensor& local, const tensor::Tensor& partial,
                           const tensor::Tensor& addend = {});

/// Where to write a sum over the group before reduce_scatter_tokens: scratch, or `local` when the
/// group has one rank.
tensor::Tensor partial_of(const Context& context, const tensor::Tensor& scratch, const tensor::Tensor& local);

}  // namespace shard8::model
