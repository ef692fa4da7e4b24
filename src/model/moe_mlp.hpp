// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/moe.hpp"
#include "model/dispatch_rounds.hpp"
#include "model/norm.hpp"
#include "model/products.hpp"
#include "model/sequence_parallel.hpp"
#include "tensor/arena.hpp"

// The feed-forward block of a layer with experts: y = x + Σ_k w_k·expert_k(norm(x)) for each token, over its K experts.
//
// The router multiplies the normalised tokens by a matrix and chooses K of E experts for each token (kernels/moe.hpp).
// A row is a pair of a token and one of its experts. The rows are sent to the ranks of the expert group that hold the
// experts, round by round (DispatchRounds), multiplied there, and sent back. An expert is a SwiGLU block; the weight
// w_k multiplies its activation, so the results of a token's experts are added as they are, in the order of k. Each
// rank routes its own tokens: nothing is gathered over the tensor group. Tokens of padding sequences have no experts.
//
// What is kept from forward to backward is that of the first round alone. Backward dispatches the rows of further
// rounds again and computes them anew, so memory does not depend on how tokens choose.

namespace shard8::model {

/// T = Dims::tokens_local() tokens, E experts, K of them for a token, F their width, R = ExpertDims::round_rows rows of
/// a round, H = hidden. Tensors are in the compute dtype unless they say otherwise.
class MoeMlp {
 public:
  /// `tensor_rank`: of the rank whose tokens are computed. `group_rank`: its number in its expert group.
  MoeMlp(const Dims& dims, int tensor_rank, int group_rank);

  struct Weights {
    Affine norm;
    Weight router;  ///< (E, H)
  };
  struct Gradients {
    Affine norm;
    AffineGradient router;
  };
  /// Of the experts that this rank holds, one below the other: fc1 (2·F, H) and fc2 (H, F) each.
  struct ExpertWeights {
    Weight fc1, fc2;
  };
  /// fp32. Always added to.
  struct ExpertGradients {
    tensor::Tensor fc1, fc2;
  };
  /// The rows of a round that this rank multiplies.
  struct Rows {
    tensor::Tensor input;          ///< (R, H)
    tensor::Tensor weights;        ///< (R) fp32
    tensor::Tensor preactivation;  ///< (R, 2·F); overwritten by its gradient in backward
    tensor::Tensor activation;     ///< (R, F), with the weight
    bool recomputed = false;       ///< backward recomputes the activation from the preactivation

    static Rows allocate(const Dims& dims, tensor::Arena& arena);
  };
  /// What forward writes for backward.
  struct Saved {
    NormStatistics statistics;
    tensor::Tensor normed;  ///< (T, H)
    kernels::MoeRouting routing;
    tensor::Tensor position, source;  ///< (T, K) and (T·K) i32: kernels::moe_sort
    tensor::Tensor counts;            ///< (ranks of the expert group, E) i32: the rows of each rank for each expert
    tensor::Tensor sequence_sums;     ///< kernels::moe_sequence_sums; empty without a balance loss
    Rows rows;                        ///< of the first round

    /// All but `rows`.
    static Saved allocate(const Dims& dims, tensor::Arena& arena);
  };
  struct Scratch {
    tensor::Tensor all;                         ///< u8: the bytes of all members below
    tensor::Tensor logits;                      ///< (T, E) fp32
    tensor::Tensor dlogits;                     ///< (T, E)
    tensor::Tensor dweights;                    ///< (T, K) fp32
    tensor::Tensor dnormed;                     ///< (T, H)
    tensor::Tensor sent, sent_weights;          ///< (T·K, H), (T·K) fp32: rows that this rank sends or gets back
    tensor::Tensor returned, returned_weights;  ///< (T·K, H), (T·K) fp32: results or gradients of all own rows
    tensor::Tensor arrived, arrived_weights;    ///< (R, H), (R) fp32: in the order in which rows arrive
    tensor::Tensor arrival, place;              ///< (R) i32: DispatchRounds::round
    tensor::Tensor doutput, dactivation;        ///< (R, H), (R, F)
    tensor::Tensor output, drow_weights;        ///< (R, H), (R) fp32: results that are sent; empty with one rank
    tensor::Tensor activation;                  ///< (R, F): Rows::activation of layers that recompute it
    Rows further;                               ///< of rounds behind the first one; empty if there is never one

    static Scratch allocate(const Dims& dims, bool recomputes_activation, tensor::Arena& arena);
  };
  /// The micro-batch that is routed.
  struct Routed {
    tensor::Tensor token_weights;  ///< (tokens of the micro-batch) fp32: 0 for padding
    std::int64_t step = 0, layer = 0, first_sequence = 0, sequence_stride = 1;  ///< see kernels::MoeDraw
    tensor::Tensor counts{};  ///< (E) i32: the rows of each expert are added to it; empty: they are not counted
    tensor::Tensor
        balance{};  ///< a double as 8 bytes of u8: the sum of the balance over sequences is added to it, or empty
  };

  /// Routes x (T, H): writes all of `saved` but the rows, and the sum of x if x is still partial sums. Collective over
  /// the tensor group and the expert group, as are the others.
  void route(const Context& context, const Saved& saved, HeldSum x, const Weights& w, const Scratch& scratch,
             const Routed& routed) const;
  /// Writes y (T, H) = residual (T, H) + the experts' results of what was routed, and saved.rows.
  void forward(const Context& context, const tensor::Tensor& y, const tensor::Tensor& residual, const Saved& saved,
               const ExpertWeights& w, const Scratch& scratch) const;
  /// Writes saved.rows alone, a second time.
  void recompute(const Context& context, const Saved& saved, const ExpertWeights& w, const Scratch& scratch) const;
  /// Adds the gradients of the experts' weights to dw, given dy (T, H), the gradient of y. What backward() reads stays
  /// in `scratch`. Overwrites saved.rows.
  void backward_experts(const Context& context, const tensor::Tensor& dy, const ExpertGradients& dw, const Saved& saved,
                        const ExpertWeights& w, const Scratch& scratch) const;
  /// Ends the backward of what was routed, after backward_experts(). dx (T, H): on entry the gradient of y, on exit the
  /// gradient of x, the residual path included. x is that of route(). `sequence_scale`: gradients are those of a loss
  /// to which a sequence adds its balance times this.
  void backward(const Context& context, const tensor::Tensor& dx, const Gradients& dw, const tensor::Tensor& x,
                const Saved& saved, const Weights& w, const Scratch& scratch, const Routed& routed,
                float sequence_scale) const;

 private:
  using Round = DispatchRounds::Round;
  /// Rows of a matrix (n, H), and a number (n) fp32 of each. Without numbers `weights` has no memory.
  struct Weighted {
    tensor::Tensor rows, weights;
    Weighted slice(std::int64_t first, std::int64_t n) const {
      return {rows.slice(first, n), weights.data == nullptr ? tensor::Tensor{} : weights.slice(first, n)};
    }
    /// The rows alone, unless `weighted`.
    Weighted with(bool weighted) const { return {rows, weighted ? weights : tensor::Tensor{}}; }
  };
  tensor::Tensor own(const tensor::Tensor& of_micro_batch) const;
  void exchange_counts(const Context& context, const Saved& saved) const;
  void balance(const Context& context, const Saved& saved, const Routed& routed) const;
  /// Sets the rounds of what was routed, and returns their number.
  std::int64_t begin_rounds(const Context& context, const Saved& saved) const;
  Round begin_round(const Context& context, std::int64_t number, const Scratch& scratch) const;
  static const Rows& rows_of(std::int64_t round, const Saved& saved, const Scratch& scratch) {
    return round == 0 ? saved.rows : scratch.further;
  }
  /// to[i] = from[index[i] / per_token], and the number from.weights[index[i]].
  void gather(const Context& context, const Weighted& to, const Weighted& from, const tensor::Tensor& index,
              std::int64_t per_token) const;
  /// The all-to-all of a round. `back`: results go back to the ranks that have sent the rows.
  void exchange(const Context& context, const Round& round, const Weighted& out, const Weighted& in, bool back) const;
  /// Sends rows of `tokens`, (T, H) with numbers (T·K), to their experts: writes `to`, the rows received, sorted by
  /// expert.
  void dispatch(const Context& context, const Round& round, const Weighted& to, const Weighted& tokens,
                const Saved& saved, const Scratch& scratch) const;
  /// Where the results of a round's rows are to be written, for combine().
  Weighted results_of(const Round& round, const Scratch& scratch) const;
  /// Sends results_of() the round back to their tokens' ranks: to scratch.returned and, if `weighted`, to
  /// returned_weights.
  void combine(const Context& context, const Round& round, bool weighted, const Scratch& scratch) const;
  /// Calls work(expert, its first row, its rows) for each expert of this rank that has rows in the round.
  template <class Work>
  void for_each_expert(const Context& context, operation::Linear linear, const Round& round, const Work& work) const;
  /// Writes `rows`, those of the round; the activation only if `activates`.
  void compute(const Context& context, const Round& round, const Rows& rows, bool activates, const Saved& saved,
               const ExpertWeights& w, const Scratch& scratch) const;
  void backward_round(const Context& context, const Round& round, const tensor::Tensor& dy, const ExpertGradients& dw,
                      const Rows& rows, const Saved& saved, const ExpertWeights& w, const Scratch& scratch) const;

  Norm norm_;
  Dims d_;
  std::int64_t first_token_;  ///< of this rank in the micro-batch
  int group_rank_;
  mutable DispatchRounds rounds_;
};

}  // namespace shard8::model
