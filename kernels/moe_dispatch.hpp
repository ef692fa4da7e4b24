// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/exec.hpp"
#include "tensor/tensor.hpp"

/// Dispatch and combine of a layer of experts (kernels/moe.hpp) through the memory of all ranks of an expert group. The
/// counts of rows are read by the kernels, so the host need not know them.
///
/// Rank r of N holds the experts [r·E/N, (r+1)·E/N). The rows that a rank receives have an order: by expert, then by
/// the rank that sends them, then as they are sorted there. Behind the rows of each expert are padding rows, until
/// their number is a multiple of MoeDispatch::multiple. Round k brings the rows [k·R, (k+1)·R) of this order to each
/// rank. With a multiple of 1 the rounds are those of model::DispatchRounds.
///
/// In all functions: N ranks, E experts, R rows of a round, T tokens of this rank, K experts per token, H hidden.
/// Tensors called i32 have DType::i32. T and all counts may be 0. A tensor with another count than stated is an
/// Error(failed). Each row that is written has one writer, so results do not depend on the order of threads.
namespace shard8::kernels {

/// The most ranks of an expert group whose ranks write to each other's memory.
inline constexpr int kMostDispatchRanks = 16;

/// Where a matrix or a vector of each rank begins, by addresses with which this rank writes to it. The matrices of all
/// ranks have the same shape. Only the first N addresses are used; the own rank's is one of them.
struct RankAddresses {
  std::byte* of[kMostDispatchRanks] = {};
};

/// How many rows each rank sends for each expert, and what moe_rounds() makes of it.
struct MoeDispatch {
  tensor::Tensor counts;        ///< (N, E) i32: the rows of each rank for each expert
  int rank = 0;                 ///< this rank
  std::int64_t round_rows = 0;  ///< R, a multiple of `multiple`
  std::int64_t multiple = 1;    ///< 1, 16, 32 or 128: the rows of each expert are padded to a multiple of it

  // Written by moe_rounds(). The number of rounds that it writes is first.rows().
  tensor::Tensor first;  ///< (rounds, E/N) i32: the first row of each of this rank's experts in the round
  tensor::Tensor rows;   ///< (rounds, E/N) i32: the expert's rows in the round, with padding
  tensor::Tensor end;    ///< (rounds) i32: the rows of the round with padding, all behind them are unused
  tensor::Tensor table;  ///< moe_dispatch_table_count() i32: read by the other functions

  int ranks() const { return static_cast<int>(counts.rows()); }
  std::int64_t experts() const { return counts.cols(); }
  std::int64_t local() const { return first.cols(); }  ///< experts of a rank
  std::int64_t rounds() const { return first.rows(); }
};

/// A part of a round: its rows of some of the experts that a rank holds. In dispatch a rank sends the rows for these
/// experts to every rank, in combine the results of these experts of its own. A part may be sent while the rows of
/// another part are multiplied.
struct DispatchPart {
  std::int64_t round = 0;
  std::int64_t first = 0, experts = 0;  ///< the rank's experts with numbers [first, first + experts)
  int multiprocessors = 0;              ///< on a device: the kernel uses at most as many multiprocessors; 0: all

  /// All rows of a round.
  static DispatchPart whole(const MoeDispatch& dispatch, std::int64_t round) {
    return {.round = round, .experts = dispatch.local()};
  }
};

/// The elements of MoeDispatch::table.
std::int64_t moe_dispatch_table_count(int ranks, std::int64_t experts, std::int64_t rounds);

/// Writes first, rows, end and table of `dispatch`. Where an expert has no rows in a round, `first` is where they would
/// begin. Rows behind the last round are in no round: the caller gives as many rounds as the worst routing needs. No
/// rank may receive 2^31 rows with padding or more.
void moe_rounds(const tensor::Exec& exec, const MoeDispatch& dispatch);

/// Sends the rows of a part of a round to the ranks that hold their experts. Row p of this rank's sorted rows is
/// tokens[source[p] / K]; it is written to its place in the round, in the matrix `rows` (R, H) of the rank that
/// receives it. If values is not empty, values[source[p]] is written to the same place of the vector `numbers` (R) fp32
/// of that rank. tokens is (T, H) of a dtype of 1, 2 or 4 bytes, source (T·K) i32 from moe_sort(), values (T·K) fp32 or
/// empty. Padding rows are not written. T·K·N must be below 2^31.
void moe_push_rows(const tensor::Exec& exec, const RankAddresses& rows, const RankAddresses& numbers,
                   const MoeDispatch& dispatch, const DispatchPart& part, const tensor::Tensor& tokens,
                   const tensor::Tensor& source, const tensor::Tensor& values);

/// Sends the results of a part of a round back. results (R, H) has a row for each row of the round that this rank has
/// received. The row is written to the matrix `rows` (T·K, H) of the rank that sent it, at the row's place p among the
/// rows that are sorted there. If values (R) fp32 is not empty, the row's value is written to place p of the vector
/// `numbers` (T·K) fp32 of that rank. results is of a dtype of 1, 2 or 4 bytes. Padding rows are not sent.
void moe_push_results(const tensor::Exec& exec, const RankAddresses& rows, const RankAddresses& numbers,
                      const MoeDispatch& dispatch, const DispatchPart& part, const tensor::Tensor& results,
                      const tensor::Tensor& values);

/// Writes zeros to the padding rows of a round, which are multiplied like all others: to those of rows (R, H), of any
/// dtype whose zero has no bit set, and, if numbers (R) fp32 is not empty, to those of numbers.
void moe_zero_padding(const tensor::Exec& exec, const tensor::Tensor& rows, const tensor::Tensor& numbers,
                      const MoeDispatch& dispatch, std::int64_t round);

}  // namespace shard8::kernels
