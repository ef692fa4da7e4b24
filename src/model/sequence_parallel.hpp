// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <utility>

#include "model/dims.hpp"
#include "model/products.hpp"
#include "profile/phase.hpp"
#include "tensor/operand.hpp"

namespace shard8::model {

// The collectives between blocks and column- or row-parallel layers (sequence parallelism, Korthikanti et al. 2022).
// Each collective is timed as tensor_comm, and as the exchange that the caller names. In a group of one rank the
// collectives move nothing.

//
// The objects below hold the memory of their exchange (Lease): as long as a Gathering lives, the gathered matrix may be
// read; as long as a Scattering or a HeldSum lives, the sum may. Move-only.

/// A gather under way. Only wait() gives the matrix, which may be read until the end of this object.
class Gathering {
 public:
  Gathering(profile::Exchange name, tensor::Operand whole, operation::Issued<comm::Request> gather, Lease memory)
      : name_(name), whole_(whole), gather_(std::move(gather)), memory_(std::move(memory)) {}
  /// What the execution space is given from now on sees the gathered matrix.
  const tensor::Operand& wait(const Context& context);
  /// The memory, for the next matrix that is gathered there. The gathered matrix must not be read any more.
  Lease release() && { return std::move(memory_); }

 private:
  profile::Exchange name_;
  tensor::Operand whole_;
  operation::Issued<comm::Request> gather_;
  Lease memory_;
};

/// Begins to gather the tokens of all ranks of the tensor group, `local` (T_local, N) of each, to (tokens, N). A plain
/// operand is gathered into `whole`, which must have so many elements. The bytes and block scales of an operand in FP8
/// are gathered into `whole_cast`, in one call. An operand that is stored transposed is gathered transposed, and
/// `whole` is scratch for that. A scale of the whole matrix is not gathered, since all ranks have the same one: it must
/// not change as long as the matrix is read. Until wait(), `local` must not change. In a group of one rank the gathered
/// matrix is `local`. `hidden`: the caller runs other kernels before wait(). Then no kernel copies this rank's tokens,
/// if copy engines can (comm::Communicator::OwnPart::returned). `memory`: the lease of the memory that is written;
/// empty if the caller holds it, or if nothing else uses it.
Gathering start_gather_tokens(const Context& context, profile::Exchange name, const tensor::Tensor& whole,
                              const fp8::CastBuffer& whole_cast, const tensor::Operand& local, bool hidden,
                              Lease memory);

/// Calls read(first, count), for ranks `first` … `first` + `count` − 1, in the order in which `rank` multiplies the
/// tokens of the first `ranks` ranks of a group of `size`: first its own, if it is one of them, then those of the other
/// ranks in `splits` groups as they arrive (comm::GatherParts::arrival). A group that wraps around from rank 0 to the
/// last rank takes two calls. With 0 splits each rank is a group of its own.
template <class Read>
void for_each_arrival(int rank, int size, int splits, int ranks, const Read& read) {
  const int groups = splits == 0 ? size - 1 : splits;
  if (rank < ranks) read(rank, 1);
  for (int group = 0; group < groups; ++group) {
    const int end = 1 + (group + 1) * (size - 1) / groups;
    for (int k = 1 + group * (size - 1) / groups; k < end;) {
      const int last = (rank - k + size) % size;  // ranks arrive downwards
      const int count = std::min(end - k, last + 1), first = last + 1 - count;
      if (first < ranks) read(first, std::min(last + 1, ranks) - first);
      k += count;
    }
  }
}

/// Cuts the `tokens` tokens of another rank into `chunks` runs of about equal length and calls read(first, count) for
/// each run, in order. A pipeline computes each run in one product, and sends the run while it computes the next one.
/// Runs begin at multiples of 128 tokens, so that their products have whole tiles and whole blocks of scales. If there
/// are too few tokens for that, there are fewer runs.
template <class Read>
void for_each_chunk_of_rank(std::int64_t tokens, int chunks, const Read& read) {
  constexpr std::int64_t kStep = 128;
  for (std::int64_t i = 0, first = 0; i < chunks; ++i) {
    const std::int64_t end = i + 1 == chunks ? tokens : tokens * (i + 1) / chunks / kStep * kStep;
    if (end > first) read(first, end - first);
    first = end;
  }
}

/// A gather whose parts, the tokens of each rank, are used one by one. The arguments are those of start_gather_tokens;
/// `local` must not change until finish().
class GatheringByParts {
 public:
  /// Without `read_whole` only parts are read: finish() must not be called with the whole.
  GatheringByParts(const Context& context, const TensorExchange& exchange, const tensor::Tensor& whole,
                   const fp8::CastBuffer& whole_cast, const tensor::Operand& local, Lease memory,
                   bool read_whole = false);
  /// Calls multiply(first rank, tokens) as for_each_arrival() calls `read`, each time when all of the tokens are there.
  template <class Multiply>
  void in_order_of_arrival(const Context& context, int splits, int ranks, const Multiply& multiply);
  /// The tokens (T_local, N) of a rank. What the execution space is given from now on sees them.
  tensor::Operand wait(const Context& context, int rank);
  /// No part is read from now on.
  void finish(const Context& context);
  /// As finish(), but all tokens are in `whole`, (tokens, N) in the memory that the constructor was given. Operands
  /// must be plain.
  void finish(const Context& context, const tensor::Tensor& whole);

 private:
  void finish_parts(const Context& context);
  /// The tokens of `count` ranks, from `first` on. On hosts `count` is 1.
  tensor::Operand wait(const Context& context, int first, int count);

  profile::Exchange name_;
  tensor::Operand local_, whole_;
  bool read_whole_;
  operation::Issued<comm::GatherParts> parts_;
  Lease memory_;
};

template <class Multiply>
void GatheringByParts::in_order_of_arrival(const Context& context, int splits, int ranks, const Multiply& multiply) {
  const auto read = [&](int first, int count) {
    multiply(first, count == 1 ? wait(context, first) : wait(context, first, count));
  };
  for_each_arrival(context.tensor_group.rank(), context.tensor_group.size(), splits, ranks, read);
}

/// A matrix (tokens, N) that a reduce-scatter will sum over the tensor group, and the lease of its memory.
struct Partial {
  tensor::Tensor matrix;
  Lease memory;

  Partial(const tensor::Tensor& held) : matrix(held) {}  // NOLINT: the caller holds the memory
  /// A matrix to be summed into `local` (T_local, N). The matrix lies in `scratch`, which must have so many elements.
  /// In a group of one rank it is `local`.
  Partial(const Context& context, profile::Exchange name, const tensor::Tensor& scratch, const tensor::Tensor& local);
};

/// A reduce-scatter under way. Only wait() gives the sum, which may be read until the end of this object.
class Scattering {
 public:
  Scattering(profile::Exchange name, const tensor::PartialSums& sum, operation::Issued<comm::Request> scatter,
             Lease memory)
      : name_(name), sum_(sum), scatter_(std::move(scatter)), memory_(std::move(memory)) {}
  /// What the execution space is given from now on sees the sum, which it returns.
  const tensor::PartialSums& wait(const Context& context);

 private:
  profile::Exchange name_;
  tensor::PartialSums sum_;
  operation::Issued<comm::Request> scatter_;
  Lease memory_;
};

/// Writes local (T_local, N): this rank's tokens of the sum of `partial` (tokens, N) over the group, plus `addend`
/// (T_local, N) unless it is empty. `addend` may be `local`. In a group of one rank `partial` must be `local` and
/// `addend` must be empty, else Error(failed).
void reduce_scatter_tokens(const Context& context, profile::Exchange name, const tensor::Tensor& local, Partial partial,
                           const tensor::Tensor& addend = {});

/// Begins the reduce-scatter without an addend. If the exchange is not off, the call may leave the sum to the kernel
/// that reads it: wait() then returns partial sums, which lie in `partial` and in memory of the communicator, and
/// `local` is not written. The partial sums are there until the execution space is given another reduce-scatter
/// (Communicator::reduce_scatter_partial_sums).
Scattering start_scatter_partial_sums(const Context& context, const TensorExchange& exchange,
                                      const tensor::Tensor& local, Partial partial);

/// A matrix that may still be partial sums, which its first reader adds, and the lease of their memory. Pass the object
/// on by std::move to the module that reads the matrix first: until then partial sums and addend are held.
struct HeldSum {
  tensor::SumOfPartials sum;
  Lease memory;

  HeldSum(const tensor::SumOfPartials& held, Lease lease = {}) : sum(held), memory(std::move(lease)) {}  // NOLINT
  HeldSum(const tensor::Tensor& made) : sum(made) {}  // NOLINT: every tensor is one that is made
  bool made() const { return sum.made(); }
  /// The matrix. The matrix's reader has been issued, so nothing is held any more.
  tensor::Tensor read() {
    memory = {};
    return sum.sum;
  }
};

/// A reduce-scatter to which this rank gives its partial sums part by part. The group must have several ranks.
class ScatteringByParts {
 public:
  /// `local`, `partial` and `addend` as for reduce_scatter_tokens; none may change until finish(), but by the caller's
  /// products.
  ScatteringByParts(const Context& context, const TensorExchange& exchange, const tensor::Tensor& local,
                    Partial partial, const tensor::Tensor& addend);
  /// Where to write the partial sums (tokens, N): `partial`, or memory that other ranks read.
  const tensor::Tensor& whole() const { return whole_; }
  /// Has the rows of whole() computed and gives them to their ranks, run by run: multiply(first, count) computes rows
  /// `first` … `first` + `count` − 1 of whole() in one product, and the rows are given as soon as multiply returns. The
  /// rows of each other rank are `chunks` runs (for_each_chunk_of_rank). The rows of this rank are one run, the last
  /// one.
  template <class Multiply>
  void in_order_of_departure(const Context& context, int chunks, const Multiply& multiply);
  /// What the execution space is given from now on sees the sum in `local`. All ranks must have been given.
  void finish(const Context& context);
  /// As finish(), or the sum stays partial sums: the next kernel must write it to `local`, before the execution space
  /// is given another reduce-scatter (comm::ScatterParts::finish_partial_sums).
  [[nodiscard]] HeldSum finish_partial_sums(const Context& context) &&;

 private:
  void give(const Context& context, int rank, std::int64_t first, std::int64_t count);

  void begin(const Context& context);

  TensorExchange exchange_;
  tensor::Tensor local_, whole_, addend_;
  std::int64_t tokens_;  ///< of a rank
  operation::Issued<comm::ScatterParts> parts_;
  Lease memory_;
  bool begun_ = false;
};

template <class Multiply>
void ScatteringByParts::in_order_of_departure(const Context& context, int chunks, const Multiply& multiply) {
  const int ranks = context.tensor_group.size();
  for (int k = 1; k <= ranks; ++k) {
    const int rank = comm::destination(k, context.tensor_group.rank(), ranks);
    for_each_chunk_of_rank(tokens_, k == ranks ? 1 : chunks, [&](std::int64_t first, std::int64_t count) {
      multiply(rank * tokens_ + first, count);
      give(context, rank, first, count);
    });
  }
}

}  // namespace shard8::model
