// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/moe_dispatch.hpp"
#include "model/context.hpp"
#include "model/dispatch_rounds.hpp"
#include "tensor/arena.hpp"

namespace shard8::model {

/// A round of a layer's rows.
struct ExpertRound {
  std::int64_t number = 0;
  std::int64_t rows = 0;      ///< rows of matrices that operations of the round get, padding included
  std::int64_t products = 0;  ///< rows that descriptions of products count: by pushes the mean, else `rows`
  kernels::RowGroups groups;  ///< the rows of each of this rank's experts in the round, padding included
  tensor::Tensor end;         ///< by pushes: (1) i32, the rows that are used of these; empty: all
};

/// Rows of a matrix (n, H), and a number (n) fp32 of each. Without numbers `weights` has no memory.
struct WeightedRows {
  tensor::Tensor rows, weights;
  WeightedRows slice(std::int64_t first, std::int64_t n) const {
    return {rows.slice(first, n), weights.data == nullptr ? tensor::Tensor{} : weights.slice(first, n)};
  }
  /// The rows alone, unless `weighted`.
  WeightedRows with(bool weighted) const { return {rows, weighted ? weights : tensor::Tensor{}}; }
  /// The same memory, as equally many rows of another dtype, whose elements are not larger.
  WeightedRows of(tensor::DType dtype) const { return {{rows.data, rows.shape, dtype}, weights}; }
};

/// How the rows of a layer's tokens come to the ranks that hold their experts, and results come back: round by round.
/// A row is a pair of a token and one of its experts. T tokens of this rank, K experts of a token, R =
/// ExpertDims::round_rows, H hidden. There are two ways:
///
/// - *By counts*: the host reads how many rows each rank sends (DispatchRounds). Rows are gathered, sent by an
///   all-to-all of the expert group, and sorted by expert. The host waits for the router in each layer and direction.
/// - *By pushes* (ExpertDims::pushes), on devices: kernels read the counts and write rows and results to their places
///   in the memory of all ranks (kernels/moe_dispatch.hpp). The host waits for nothing, so it issues as many rounds as
///   the worst routing needs, and each operation gets R rows of which ExpertRound::end are used.
///
/// A recorded step has one round with the mean of rows.
class ExpertExchange {
 public:
  /// Of the rank number `group_rank` of its expert group.
  ExpertExchange(const Dims& dims, int group_rank);

  struct Scratch {
    WeightedRows returned;          ///< (T·K, H), (T·K): results or gradients of all own rows, sorted by expert
    WeightedRows output;            ///< (R, H), (R): results of a round's rows; empty if they are `returned`
    WeightedRows sent, arrived;     ///< by counts: (T·K, H), (T·K) and (R, H), (R)
    tensor::Tensor arrival, place;  ///< by counts: (R) i32: DispatchRounds::round
    kernels::RowGroups groups;      ///< by counts: of the round
    tensor::Tensor tables;          ///< u8: by counts the bytes of groups, arrival and place
    kernels::MoeDispatch dispatch;  ///< by pushes: all but the counts and the rank

    /// What peers write is in `pushed`.
    static Scratch allocate(const Dims& dims, tensor::Arena& arena, tensor::Arena& pushed);
  };

  /// Gives this rank's part of `counts` (ranks of the expert group, experts) i32 to the others. Collective over the
  /// expert group.
  void exchange_counts(const Context& context, const tensor::Tensor& counts) const;
  /// Begins the rounds of these counts, and returns how many there are.
  std::int64_t begin(const Context& context, const tensor::Tensor& counts, const Scratch& scratch) const;
  /// Round `number`. It is valid until the next call.
  ExpertRound round(const Context& context, std::int64_t number, const Scratch& scratch) const;
  /// Sends rows of `tokens`, (T, H) with numbers (T·K), to their experts: writes `to`, (R, H) and (R), the rows
  /// received, sorted by expert. Rows are in the compute dtype or in FP8. `source`: see kernels::moe_sort. By pushes
  /// `to` is in memory that peers write.
  /// Collective over the expert group, as is combine().
  void dispatch(const Context& context, const ExpertRound& round, const WeightedRows& to, const WeightedRows& tokens,
                const tensor::Tensor& source, const Scratch& scratch) const;
  /// Where the results of a round's rows are to be written, for combine().
  WeightedRows results_of(const ExpertRound& round, const Scratch& scratch) const;
  /// Sends results_of() the round back to their tokens' ranks: to scratch.returned, numbers only if `weighted`.
  void combine(const Context& context, const ExpertRound& round, bool weighted, const Scratch& scratch) const;

 private:
  // By counts.
  void gather(const Context& context, const WeightedRows& to, const WeightedRows& from, const tensor::Tensor& index,
              std::int64_t per_token) const;
  /// The all-to-all of a round. `back`: results go back to the ranks that have sent the rows.
  void all_to_all(const Context& context, const WeightedRows& out, const WeightedRows& in, bool back) const;
  void dispatch_by_counts(const Context& context, const WeightedRows& to, const WeightedRows& tokens,
                          const tensor::Tensor& source, const Scratch& scratch) const;
  void combine_by_counts(const Context& context, const ExpertRound& round, bool weighted, const Scratch& scratch) const;
  // By pushes.
  /// The dispatch of the counts whose rounds began last.
  kernels::MoeDispatch dispatch_of(const Scratch& scratch) const;
  /// Issues `write`, which pushes rows of `from` to `to` of peers. `back`: they are results. The operation is described
  /// with the mean of rows.
  template <class Write>
  void push(const Context& context, const WeightedRows& from, const WeightedRows& to, bool back,
            const Write& write) const;
  /// Addresses of a tensor of this rank's pushed memory on all ranks.
  kernels::RankAddresses addresses(const Context& context, const tensor::Tensor& of) const;

  Dims d_;
  int group_rank_;
  mutable DispatchRounds rounds_;
  mutable DispatchRounds::Round round_{};
  mutable tensor::Tensor counts_{};  ///< by pushes: of begin()
};

}  // namespace shard8::model
