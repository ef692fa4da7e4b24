// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/gemm.hpp"
#include "kernels/moe.hpp"
#include "model/dims.hpp"
#include "model/products.hpp"
#include "tensor/arena.hpp"
#include "tensor/tensor.hpp"

namespace shard8::model {

/// What a rank sends and receives when an expert group's rows are dispatched: round by round, so that no round needs
/// more memory than ExpertDims::round_rows. A row is a pair of a token and one of its experts. A rank has its own rows
/// sorted by expert.
///
/// The rows that a rank receives have an order: by expert, each expert's rows filled up with padding rows to a multiple
/// of ExpertDims::rows_multiple, then by the rank that sends them, then as there. Round k has rows [k·R, (k+1)·R) of
/// this order on each rank, R = round_rows, itself a multiple. So what a rank sends to another one in a round is one
/// run of its sorted rows, and the rows of one of the receiver's experts are one run of the round, with its padding
/// behind it.
///
/// Memory is taken by the constructor alone.
class DispatchRounds {
 public:
  /// The rounds of the rank number `rank` of its expert group, each of whose ranks has `tokens` tokens.
  DispatchRounds(const ExpertDims& dims, std::int64_t tokens, int rank);

  /// From now on rounds are those of counts (ranks, E): how many rows each rank of the group has for each expert.
  void set(std::span<const std::int32_t> counts);
  /// As set(), of a group whose tokens choose all experts equally often, up to one. There is one round then, in which
  /// as many rows arrive at each rank as it sends.
  void set_mean();
  /// As set(), of a group whose tokens all choose experts of the first rank, equally often, and, if it has fewer than a
  /// token needs, equally often those of the other ranks. As many rows arrive at the first rank as are possible.
  void set_worst();
  /// The rounds until every rank has its rows: the same number on all ranks of the group.
  std::int64_t rounds() const { return rounds_; }

  /// One round, for this rank. The round is valid until the next call of round() or set().
  struct Round {
    std::span<const std::int64_t> send_first;    ///< by rank: the first of the sorted rows that are sent to it
    std::span<const std::int64_t> send_rows;     ///< by rank: how many
    std::span<const std::int64_t> receive_rows;  ///< by rank: the rows that it sends
    std::span<const std::int64_t> expert_first;  ///< by expert of this rank: its first row in the round
    std::span<const std::int64_t> expert_rows;   ///< by expert of this rank, without padding
    std::int64_t sent = 0, received = 0;         ///< sums of send_rows and receive_rows
    std::int64_t rows = 0;                       ///< received rows with padding
  };
  /// Returns the round `number`. Also writes groups, (experts of this rank) each, unless they are empty: expert_first,
  /// and expert_rows with padding, as i32. Products then compute padding rows like all others: zeros stay zeros. Also
  /// writes arrived (rows) i32, unless it is empty: row i of the round arrives as row arrived[i], in the order of the
  /// ranks that send, or is padding if arrived[i] is −1; and place (received) i32, the inverse. All are in memory of
  /// the host.
  Round round(std::int64_t number, const kernels::RowGroups& groups = {}, const tensor::Tensor& arrived = {},
              const tensor::Tensor& place = {});

 private:
  std::int64_t count(int rank, std::int64_t expert) const {
    return counts_[static_cast<std::size_t>(rank * dims_.experts + expert)];
  }
  /// The rows that the rank number `rank` receives, with padding.
  std::int64_t rows_of(int rank) const;
  void find_rounds();

  ExpertDims dims_;
  std::int64_t tokens_;
  int rank_;
  std::int64_t rounds_ = 0;
  std::vector<std::int32_t> counts_;
  std::vector<std::int64_t> send_first_, send_rows_, receive_rows_, expert_first_, expert_rows_;
  std::vector<std::int64_t> row_;   ///< by expert of this rank: rows that have their place so far
  std::vector<std::int64_t> next_;  ///< by sending rank: rows that have arrived so far
};

/// A round of a layer's rows.
struct ExpertRound {
  std::int64_t number = 0;
  std::int64_t rows = 0;      ///< rows of matrices that operations of the round get, padding included
  std::int64_t products = 0;  ///< rows that descriptions of products count: by pushes the mean, else `rows`
  kernels::RowGroups groups;  ///< the rows of each of this rank's experts in the round, padding included
  tensor::Tensor end;         ///< by pushes: (1) i32, the rows that are used of these; empty: all

  /// The part with all rows, to be multiplied at once.
  GroupPart whole() const { return {.groups = groups, .all = groups.rows.count(), .tokens = products}; }
};

/// Rows of a matrix (n, H), and a number (n) fp32 of each. Without numbers `weights` has no memory.
struct WeightedRows {
  tensor::Tensor rows, weights;
  WeightedRows slice(std::int64_t first, std::int64_t n) const {
    return {rows.slice(first, n), weights.data == nullptr ? tensor::Tensor{} : weights.slice(first, n)};
  }
  /// The rows alone, unless `weighted`.
  WeightedRows with(bool weighted) const { return {rows, weighted ? weights : tensor::Tensor{}}; }
  /// The memory of these rows, as equally many rows of another dtype, whose elements are not larger.
  WeightedRows of(tensor::DType dtype) const { return {{rows.data, rows.shape, dtype}, weights}; }
};

/// How the rows of a layer's tokens come to the ranks that hold their experts, and results come back: round by round.
/// A row is a pair of a token and one of its experts. T tokens of this rank, K experts of a token, R =
/// ExpertDims::round_rows, H hidden. There are two ways:
///
/// - *By counts*: the host reads how many rows each rank sends (DispatchRounds). Rows are gathered, sent by an
///   all-to-all of the expert group, and sorted by expert. The host waits for the router in each layer and direction.
/// - *By pushes* (ExpertDims::pushes), on devices: kernels read the counts and write rows and results to their places
///   in the memory of all ranks (kernels/moe.hpp). The host waits for nothing, so it issues as many rounds as
///   the worst routing needs, and each operation gets R rows of which ExpertRound::end are used.
///
/// A recorded step has one round with the mean of rows.
///
/// Pushes overlap with products if the deck's overlap.dispatch or overlap.combine says so. A round then goes in parts,
/// the rows of some experts each: while the rows of one part are multiplied, those of the next ones arrive, or the
/// results of those before leave. Pushes run on a stream of their own. During a product they use as few multiprocessors
/// as move the rows in the time of the products; the product leaves these to them. The first part of a dispatch and the
/// last one of a combine overlap with no product and use the whole device.
class ExpertExchange {
 public:
  /// The exchange of the rank number `group_rank` of its expert group.
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
  /// Returns round `number` of those that begin() began. The result is valid until the next call.
  ExpertRound round(const Context& context, std::int64_t number, const Scratch& scratch) const;
  /// Sends rows of `tokens`, (T, H) with numbers (T·K), to their experts: writes `to`, (R, H) and (R), the rows
  /// received, sorted by expert. Rows are in the compute dtype or in FP8. `source`: see kernels::moe_sort. If rows are
  /// pushed, `to` is in memory that peers write.
  /// Collective over the expert group, as is combine().
  void dispatch(const Context& context, const ExpertRound& round, const WeightedRows& to, const WeightedRows& tokens,
                const tensor::Tensor& source, const Scratch& scratch) const;
  /// What the products compute that overlap with a push.
  struct OverlappedProducts {
    std::int64_t weights = 0;  ///< elements of an expert's weights: each row is multiplied by as many
    bool in_fp8 = false;
  };
  /// As dispatch(), and calls multiply(part) for each part of the round once its rows are there. The round is one part
  /// if `in_parts` is false or dispatches do not overlap.
  template <class Multiply>
  void dispatch(const Context& context, const ExpertRound& round, const WeightedRows& to, const WeightedRows& tokens,
                const tensor::Tensor& source, const Scratch& scratch, bool in_parts, const OverlappedProducts& products,
                const Multiply& multiply) const;
  /// Where the results of a round's rows are to be written, for combine().
  WeightedRows results_of(const ExpertRound& round, const Scratch& scratch) const;
  /// Sends results_of() the round back to their tokens' ranks: to scratch.returned, numbers only if `weighted`.
  void combine(const Context& context, const ExpertRound& round, bool weighted, const Scratch& scratch) const;
  /// Calls multiply(part) for the round's parts, which computes their results, and sends each part's as combine() does.
  template <class Multiply>
  void combine(const Context& context, const ExpertRound& round, bool weighted, const Scratch& scratch,
               const OverlappedProducts& products, const Multiply& multiply) const;
  /// As combine(), for the whole round at once, during the products that multiply(part) issues. If combines do not
  /// overlap, the products come first.
  template <class Multiply>
  void combine_during(const Context& context, const ExpertRound& round, bool weighted, const Scratch& scratch,
                      const OverlappedProducts& products, const Multiply& multiply) const;

 private:
  /// Sets the rounds of the routing that a step has whose host does not know it: ExpertDims::worst.
  void expect_rows() const;

  /// A push under way, of one part of a round.
  using UnderWay = operation::Issued<comm::Request>;
  static constexpr int kMostParts = 16;
  using Pushes = std::array<UnderWay, kMostParts>;

  /// How a round goes in parts.
  struct Parts {
    int count = 1;
    int multiprocessors = 0;  ///< of pushes during products; 0: nothing overlaps
    bool overlaps() const { return multiprocessors > 0; }
  };
  Parts parts_of(profile::Exchange exchange, bool in_parts, const OverlappedProducts& products) const;
  /// The part with the number `part`, from 0, of a round that is cut into parts.count parts of about as many experts
  /// each. The product of the part leaves `spared` multiprocessors to pushes.
  GroupPart part_of(const ExpertRound& round, const Parts& parts, int part, int spared) const;
  UnderWay start_dispatch(const Context& context, const ExpertRound& round, const GroupPart& part, int multiprocessors,
                          const WeightedRows& to, const WeightedRows& tokens, const tensor::Tensor& source,
                          const Scratch& scratch) const;
  UnderWay start_combine(const Context& context, const ExpertRound& round, const GroupPart& part, int multiprocessors,
                         bool weighted, const Scratch& scratch) const;
  void zero_padding(const Context& context, const ExpertRound& round, const WeightedRows& to,
                    const Scratch& scratch) const;

  // The functions of exchanges by counts.
  void gather(const Context& context, const WeightedRows& to, const WeightedRows& from, const tensor::Tensor& index,
              std::int64_t per_token) const;
  /// The all-to-all of a round. `back`: results go back to the ranks that have sent the rows.
  void all_to_all(const Context& context, const WeightedRows& out, const WeightedRows& in, bool back) const;
  void dispatch_by_counts(const Context& context, const WeightedRows& to, const WeightedRows& tokens,
                          const tensor::Tensor& source, const Scratch& scratch) const;
  void combine_by_counts(const Context& context, const ExpertRound& round, bool weighted, const Scratch& scratch) const;
  // The functions of exchanges by pushes.
  /// The dispatch of the counts whose rounds began last.
  kernels::MoeDispatch dispatch_of(const Scratch& scratch) const;
  /// Pushes the rows of a part of a round from `from` on this rank to `to` on all ranks of the expert group:
  /// write(execution space) launches the kernel that does it. `name` is dispatch or combine. The operation is described
  /// with the mean of rows, because a device alone knows how many there are.
  template <class Write>
  UnderWay push(const Context& context, const GroupPart& part, const WeightedRows& from, const WeightedRows& to,
                profile::Exchange name, const Write& write) const;
  /// Addresses of a tensor of this rank's pushed memory on all ranks.
  kernels::RankAddresses addresses(const Context& context, const tensor::Tensor& of) const;

  Dims d_;
  int group_rank_;
  mutable DispatchRounds rounds_;
  mutable DispatchRounds::Round round_{};
  mutable tensor::Tensor counts_{};  ///< by pushes: of begin()
};

template <class Multiply>
void ExpertExchange::dispatch(const Context& context, const ExpertRound& round, const WeightedRows& to,
                              const WeightedRows& tokens, const tensor::Tensor& source, const Scratch& scratch,
                              bool in_parts, const OverlappedProducts& products, const Multiply& multiply) const {
  const Parts parts = parts_of(profile::Exchange::dispatch, in_parts, products);
  if (!d_.experts.pushes) {
    dispatch_by_counts(context, to, tokens, source, scratch);
    return multiply(round.whole());
  }
  const auto part = [&](int i) { return part_of(round, parts, i, i + 1 < parts.count ? parts.multiprocessors : 0); };
  Pushes pushes;
  for (int i = 0; i < parts.count; ++i)
    pushes[static_cast<std::size_t>(i)] =
        start_dispatch(context, round, part(i), i == 0 ? 0 : parts.multiprocessors, to, tokens, source, scratch);
  zero_padding(context, round, to, scratch);
  for (int i = 0; i < parts.count; ++i) {
    context.wait(profile::Exchange::dispatch, pushes[static_cast<std::size_t>(i)]);
    multiply(part(i));
  }
}

template <class Multiply>
void ExpertExchange::combine(const Context& context, const ExpertRound& round, bool weighted, const Scratch& scratch,
                             const OverlappedProducts& products, const Multiply& multiply) const {
  const Parts parts = parts_of(profile::Exchange::combine, true, products);
  if (!d_.experts.pushes) {
    multiply(round.whole());
    return combine_by_counts(context, round, weighted, scratch);
  }
  Pushes pushes;
  for (int i = 0; i < parts.count; ++i) {
    const GroupPart part = part_of(round, parts, i, i > 0 ? parts.multiprocessors : 0);
    multiply(part);
    pushes[static_cast<std::size_t>(i)] =
        start_combine(context, round, part, i + 1 < parts.count ? parts.multiprocessors : 0, weighted, scratch);
  }
  for (int i = 0; i < parts.count; ++i) context.wait(profile::Exchange::combine, pushes[static_cast<std::size_t>(i)]);
}

template <class Multiply>
void ExpertExchange::combine_during(const Context& context, const ExpertRound& round, bool weighted,
                                    const Scratch& scratch, const OverlappedProducts& products,
                                    const Multiply& multiply) const {
  const Parts parts = parts_of(profile::Exchange::combine, true, products);
  GroupPart whole = round.whole();
  if (!parts.overlaps()) {
    multiply(whole);
    return combine(context, round, weighted, scratch);
  }
  UnderWay push = start_combine(context, round, whole, parts.multiprocessors, weighted, scratch);
  whole.spared = parts.multiprocessors;
  multiply(whole);
  context.wait(profile::Exchange::combine, push);
}

}  // namespace shard8::model
