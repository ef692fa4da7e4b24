// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/runtime.hpp"
#include "tensor/tensor.hpp"

/// A layer of experts: each token is sent to K of E experts, and their results are added with weights. A router
/// chooses the experts. Each pair (token, k) has one row among the rows that the experts compute on. Rows are sorted by
/// expert.
/// In all functions down to moe_balance(): T tokens of this rank, E experts, K experts per token (1 ≤ K ≤ 64, K ≤ E), H
/// hidden, F the experts' intermediate size, N rows. Tensors called i32 have DType::i32. token_weights (T) fp32 is 0
/// for padding tokens and not 0 for other tokens. Every sum is in FP32 unless stated otherwise, has a fixed order, and
/// is rounded once. T, N and the number of rows of an argument may be 0. A tensor with another dtype or count than
/// stated is an Error(failed).
namespace shard8::kernels {

/// The most experts per token.
inline constexpr std::int64_t kMostExpertsPerToken = 64;
/// The most experts that moe_draw() draws from.
inline constexpr std::int64_t kMostDrawnExperts = 2048;

/// How this rank's tokens are routed.
struct MoeRouting {
  tensor::Tensor probabilities;  ///< (T, E) fp32: softmax of the logits over all experts
  tensor::Tensor chosen;         ///< (T, K) i32: the experts of each token, distinct
  tensor::Tensor weights;        ///< (T, K) fp32: probabilities of the chosen experts, divided by their sum
};

/// Writes routing.probabilities and routing.weights, given logits (T, E) fp32. With `choose` it also writes
/// routing.chosen: for each token the experts of its K largest logits, in descending order. Among equal logits the
/// lower expert comes first, and a NaN counts as smaller than every number. Without `choose` it reads routing.chosen,
/// whose experts must be distinct and in [0, E). The weights are computed as the softmax of the chosen logits, which is
/// equal to the quotient of which MoeRouting::weights tells.
void moe_route(const tensor::Exec& exec, const MoeRouting& routing, const tensor::Tensor& logits, bool choose);

/// The balance of experts: coefficient · Σ_b Σ_e f·P over the B sequences of a micro-batch. f = E/(K·seq) · sums[0,b,e]
/// and P = sums[1,b,e]/seq. Source: the sequence-wise balance loss of DeepSeek-V3 (DeepSeek-AI 2024), section 2.1.2.
struct MoeBalance {
  tensor::Tensor sums;           ///< (2, B, E) fp32, from moe_sequence_sums(), summed over ranks
  std::int64_t first_token = 0;  ///< row 0 is this token of the micro-batch; its sequence is first_token / seq
  std::int64_t seq = 1;          ///< tokens of a sequence, on all ranks together
  float coefficient = 0;
};

/// Writes dlogits (T, E), fp32 or bf16: the gradient of the logits, given dweights (T, K) fp32, the gradient of
/// routing.weights. dlogits has a part for the chosen experts, w_k·(dw_k − Σ_j w_j·dw_j). Unless balance.sums is empty,
/// dlogits also has a part for every expert, p_e·(dp_e − Σ_j p_j·dp_j), with dp_e the derivative of the balance:
/// coefficient·E/(K·seq)·sums[0,b,e]/seq, where b is the token's sequence. Padding tokens get zeros, whatever their
/// values are.
void moe_route_backward(const tensor::Exec& exec, const tensor::Tensor& dlogits, const tensor::Tensor& dweights,
                        const MoeRouting& routing, const MoeBalance& balance, const tensor::Tensor& token_weights);

/// Which experts moe_draw() draws. Everything depends on the seed, the step, the layer, the number of the token's
/// sequence in the global batch and the position in the sequence, so not on how tokens are cut over ranks.
struct MoeDraw {
  bool balanced = true;              ///< else by Zipf's law
  double skew = 1;                   ///< exponent of Zipf's law, at least 0; 0: every expert equally likely
  std::int64_t experts = 1;          ///< E
  std::uint64_t seed = 0;            ///< of the run
  std::int64_t step = 0, layer = 0;  ///< other numbers, other experts
  std::int64_t first_token = 0;      ///< row 0 is this token of the micro-batch
  std::int64_t seq = 1;              ///< tokens of a sequence
  std::int64_t first_sequence = 0;   ///< number in the global batch of the micro-batch's sequence 0
  std::int64_t sequence_stride = 1;  ///< sequence b has the number first_sequence + b·sequence_stride
};

/// Writes chosen (T, K) i32: experts drawn from counters, distinct for each token.
/// balanced: token n of the global batch (n = number of its sequence · seq + position) has K consecutive experts from
/// (n·K + offset) mod E on. The offset depends on seed, step and layer. So over tokens 0 to n every expert is chosen
/// equally often, up to one.
/// Otherwise: K experts are drawn one after the other without replacement, with probabilities proportional to
/// 1/(r + 1)^skew. r is the expert's place in a permutation that depends on the layer alone.
/// More than kMostDrawnExperts experts or a negative skew is an Error(failed).
void moe_draw(const tensor::Exec& exec, const tensor::Tensor& chosen, const MoeDraw& draw);

/// Sorts the pairs (token, k) by expert, then token, then k; pairs of padding tokens are left out. Writes counts (E)
/// i32, the pairs of each expert, and position (T, K) i32, a pair's place in the sorted order, −1 for padding. Writes
/// source (T·K) i32: source[place] = token·K + k. Elements of source behind the last pair are not written. Reads chosen
/// (T, K) i32 with experts in [0, E), and token_weights. T·K must be below 2^31.
void moe_sort(const tensor::Exec& exec, const tensor::Tensor& counts, const tensor::Tensor& position,
              const tensor::Tensor& source, const tensor::Tensor& chosen, const tensor::Tensor& token_weights);

/// What moe_count() adds up behind the counts of experts: rows of forward, without padding but for the rounds.
enum class MoeSum : std::uint8_t {
  received,    ///< rows that this rank receives
  further,     ///< rows that this rank sends in rounds behind the first one
  busiest,     ///< rows that the busiest rank receives
  rounds,      ///< rounds until every rank has its rows
  most_rounds  ///< the most rounds of one call, not a sum
};
inline constexpr std::int64_t kMoeSums = 5;

/// How the rows of an expert group are dispatched in rounds (model::DispatchRounds).
struct MoeRounds {
  int rank = 0;                 ///< this rank of the group
  std::int64_t round_rows = 0;  ///< rows of a round, with padding; 0 only where no rank receives rows
  std::int64_t multiple = 1;    ///< each expert's rows are padded to a multiple of it
};

/// Adds what is dispatched to the sums of a step. counts (N, E) i32: the rows of each of N ranks for each expert, of
/// which rank r holds the experts [r·E/N, (r+1)·E/N). sums (E + kMoeSums) i32: the counts of this rank are added to the
/// first E, and what MoeSum names to the rest, in its order. No sum may reach 2^31.
void moe_count(const tensor::Exec& exec, const tensor::Tensor& sums, const tensor::Tensor& counts,
               const MoeRounds& rounds);

/// inverses (n) fp32 = 1/scales (n) fp32, those of experts' weights: what quantize() writes as scale_inv.
void inverse_scales(const tensor::Exec& exec, const tensor::Tensor& inverses, const tensor::Tensor& scales);

/// Copies rows by number: y[i] = x[source[i] / per_token], for y (N, H), x (any number of rows, H) and source (N) i32.
/// With per_token = K and the source of moe_sort() each pair gets the row of its token; with 1, row source[i] itself.
/// Each source[i] / per_token must be a row of x; a source of −1 gives a row of zeros. x and y have one dtype, of 1, 2
/// or 4 bytes.
void moe_gather_rows(const tensor::Exec& exec, const tensor::Tensor& y, const tensor::Tensor& x,
                     const tensor::Tensor& source, std::int64_t per_token);
/// y[i] = x[index[i]], for y (N) fp32, x (M) fp32 of any count M, and index (N) i32. Each index must be below M, and at
/// least 0, or −1, which gives 0.
void moe_gather_values(const tensor::Exec& exec, const tensor::Tensor& y, const tensor::Tensor& x,
                       const tensor::Tensor& index);

/// y[t] = addend[t] + Σ_k rows[position[t,k]], for y (T, H), addend (T, H) or empty, rows (N, H) and position (T, K)
/// i32. The sum goes from k = 0 up, then the addend is added; a position of −1 adds nothing. Other positions must be
/// below N. All have one dtype, fp32 or bf16. y may be addend.
void moe_combine(const tensor::Exec& exec, const tensor::Tensor& y, const tensor::Tensor& addend,
                 const tensor::Tensor& rows, const tensor::Tensor& position);
/// y[t,k] = values[position[t,k]], or 0 where the position is −1, for y (T, K) fp32, values (N) fp32 and position (T,
/// K) i32.
void moe_combine_values(const tensor::Exec& exec, const tensor::Tensor& y, const tensor::Tensor& values,
                        const tensor::Tensor& position);

/// SwiGLU (kernels/elementwise.hpp) of rows with a weight each: writes a (N, F) = weight·silu(gate)·up. gate_up (N, 2F)
/// has rows [gate | up]; weights (N) is fp32. a and gate_up have one dtype, fp32 or bf16. Unless end (1) i32 is empty,
/// only rows below *end are read and written.
void moe_swiglu_forward(const tensor::Exec& exec, const tensor::Tensor& a, const tensor::Tensor& gate_up,
                        const tensor::Tensor& weights, const tensor::Tensor& end = {});
/// Writes dgate_up (N, 2F) and dweights (N) fp32, the gradients of gate_up and weights, given da (N, F), the gradient
/// of a. dweights[n] = Σ_f da·silu(gate)·up. recomputed (N, F), unless empty, receives a with the bits that
/// moe_swiglu_forward() gives. dgate_up may be gate_up, and recomputed may be da. All but the weights and dweights have
/// one dtype, fp32 or bf16. `end` as in moe_swiglu_forward().
void moe_swiglu_backward(const tensor::Exec& exec, const tensor::Tensor& dgate_up, const tensor::Tensor& dweights,
                         const tensor::Tensor& da, const tensor::Tensor& gate_up, const tensor::Tensor& weights,
                         const tensor::Tensor& recomputed = {}, const tensor::Tensor& end = {});

/// Writes sums (2, B, E) fp32, for the B sequences of a micro-batch. sums[0,b,e] counts this rank's tokens of sequence
/// b that chose e; sums[1,b,e] is the sum of their probabilities of e. chosen (T, K) i32 and probabilities (T, E) fp32
/// are those of MoeRouting. Padding tokens count nowhere. Row 0 is token first_token of the micro-batch; its sequence
/// is first_token / seq. All tokens must belong to the B sequences, else Error(failed). A count must be below 2^24.
void moe_sequence_sums(const tensor::Exec& exec, const tensor::Tensor& sums, const tensor::Tensor& chosen,
                       const tensor::Tensor& probabilities, const tensor::Tensor& token_weights,
                       std::int64_t first_token, std::int64_t seq);

/// balance += the balance of MoeBalance, in double: coefficient · Σ_b Σ_e
/// E/(per_token·seq)·sums[0,b,e]·sums[1,b,e]/seq. balance is one double, stored as 8 bytes of u8. sums (2, B, E) fp32
/// are summed over ranks. per_token is K.
void moe_balance(const tensor::Exec& exec, const tensor::Tensor& balance, const tensor::Tensor& sums,
                 double coefficient, std::int64_t per_token, std::int64_t seq);

}  // namespace shard8::kernels

/// Dispatch and combine of a layer of experts through the memory of all ranks of an expert group. The counts of rows
/// are read by the kernels, so the host need not know them.
///
/// Rank r of N holds the experts [r·E/N, (r+1)·E/N). The rows that a rank receives have an order: by expert, then by
/// the rank that sends them, then as they are sorted there. Behind the rows of each expert are padding rows, until
/// their number is a multiple of MoeDispatch::multiple. Round k brings the rows [k·R, (k+1)·R) of this order to each
/// rank. With a multiple of 1 the rounds are those of model::DispatchRounds.
///
/// In all functions from here on: N ranks, E experts, R rows of a round, T tokens of this rank, K experts per token, H
/// hidden. Tensors called i32 have DType::i32. T and all counts may be 0. A tensor with another count than stated is an
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
