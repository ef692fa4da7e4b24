// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "fp8/cast_buffer.hpp"
#include "model/context.hpp"

namespace shard8::model {

// The collectives between blocks and column- or row-parallel layers (sequence parallelism, Korthikanti et al.
// 2022). Both are timed as tensor_comm. In a group of one rank they move nothing.

/// Gathers the tokens of all ranks of the tensor group, `local` (T_local, N) of each, and returns them, (tokens, N), in
/// the memory of `whole`, which must have so many elements. In a group of one rank it returns `local`.
tensor::Tensor gather_tokens(const Context& context, const tensor::Tensor& whole, const tensor::Tensor& local);

/// A gather under way. Only wait() gives the matrix.
class Gathering {
 public:
  Gathering(tensor::Operand whole, comm::Request request) : whole_(whole), request_(std::move(request)) {}
  /// What the execution space is given from now on sees the gathered matrix.
  const tensor::Operand& wait(const Context& context);

 private:
  tensor::Operand whole_;
  comm::Request request_;
};

/// Begins to gather an operand that may be in FP8. A plain one is gathered into `whole`. The bytes and block scales of
/// one in FP8 are gathered into `whole_cast`, in one call; a scale of the whole matrix is not gathered, since all ranks
/// have the same one: it must not change as long as the matrix is read. Until wait(), `local` and the memory of the
/// whole must not change.
Gathering start_gather_tokens(const Context& context, const tensor::Tensor& whole, const fp8::CastBuffer& whole_cast,
                              const tensor::Operand& local);

/// Writes local (T_local, N): this rank's tokens of the sum of `partial` (tokens, N) over the group, plus `addend`
/// (T_local, N) unless it is empty. `addend` may be `local`. In a group of one rank `partial` must be `local` and
/// `addend` must be empty, else Error(failed).
void reduce_scatter_tokens(const Context& context, const tensor::Tensor& local, const tensor::Tensor& partial,
                           const tensor::Tensor& addend = {});

/// Begins the same. `local` is written, and `partial` may change, when wait_scattered() returns.
comm::Request start_reduce_scatter_tokens(const Context& context, const tensor::Tensor& local,
                                          const tensor::Tensor& partial, const tensor::Tensor& addend = {});
void wait_scattered(const Context& context, comm::Request& scatter);

/// The matrix (tokens, N) to write before reduce_scatter_tokens sums it over the group into `local` (T_local, N). It
/// lies in `scratch`, which must have so many elements. In a group of one rank it is `local`.
tensor::Tensor partial_of(const Context& context, const tensor::Tensor& scratch, const tensor::Tensor& local);

}  // namespace shard8::model
