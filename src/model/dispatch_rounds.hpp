// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/grouped_gemm.hpp"
#include "model/dims.hpp"
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
  /// Of the rank number `rank` of its expert group, each of whose ranks has `tokens` tokens.
  DispatchRounds(const ExpertDims& dims, std::int64_t tokens, int rank);

  /// From now on rounds are those of counts (ranks, E): how many rows each rank of the group has for each expert.
  void set(std::span<const std::int32_t> counts);
  /// As set(), of a group whose tokens choose all experts equally often, up to one. There is one round then, in which
  /// as many rows arrive at each rank as it sends.
  void set_mean();
  /// The rounds until every rank has its rows: the same number on all ranks of the group.
  std::int64_t rounds() const { return rounds_; }

  /// One round, for this rank. It is valid until the next call of round() or set().
  struct Round {
    std::span<const std::int64_t> send_first;    ///< by rank: the first of the sorted rows that are sent to it
    std::span<const std::int64_t> send_rows;     ///< by rank: how many
    std::span<const std::int64_t> receive_rows;  ///< by rank: the rows that it sends
    std::span<const std::int64_t> expert_first;  ///< by expert of this rank: its first row in the round
    std::span<const std::int64_t> expert_rows;   ///< by expert of this rank, without padding
    std::int64_t sent = 0, received = 0;         ///< sums of send_rows and receive_rows
    std::int64_t rows = 0;                       ///< received rows with padding
  };
  /// Also writes groups, (experts of this rank) each, unless they are empty: expert_first, and expert_rows with
  /// padding, as i32. Products then compute padding rows like all others: zeros stay zeros. And writes arrived (rows)
  /// i32, unless it is empty: row i of the round arrives as row arrived[i], in the order of the ranks that send, or is
  /// padding if arrived[i] is −1; and place (received) i32, the inverse. All are in memory of the host.
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

}  // namespace shard8::model
