// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/moe.hpp"
#include "model/expert_exchange.hpp"
#include "model/linear.hpp"
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
// Only matrices of the first round are kept from forward to backward. Backward dispatches the rows of further rounds
// again and recomputes their results, so memory does not depend on how tokens choose.
//
// In FP8 a rank casts the rows of a round that it multiplies, each round for itself, and their gradients likewise: it
// alone reads these matrices, so their scales are those of its own rows. Each expert's rows are padded with rows of
// zeros (ExpertDims::rows_multiple), which are cast and multiplied like all others and change no result. With current
// scaling each round has a scale of its own. Forward computes the first round last: the scale that is left in the
// scaling state is that of the first round, whose activation backward may cast again.
//
// With ExpertDims::sends_fp8 each rank casts its tokens, and in backward the gradients of their results, before they
// are sent: each token is cast once, not once for each of its experts, and takes half of the bytes. All ranks of an
// expert group then have one scale. A row that arrives is the only copy of the matrix: wgrad reads it along columns as
// it lies.

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
  /// The weights of the experts that this rank holds, one expert below the other: fc1 (2·F, H) and fc2 (H, F) each.
  struct ExpertWeights {
    Weight fc1, fc2;
  };
  /// The gradients of the experts' weights, fp32. `accumulate`: the tensors hold a sum of this step, which is added to;
  /// otherwise they are overwritten.
  struct ExpertGradients {
    tensor::Tensor fc1, fc2;
    bool accumulate = false;
  };
  /// The rows of a round that this rank multiplies. A layer in FP8 has casts in place of `input` and `activation`: the
  /// copies that wgrad reads, which are also those that forward reads if one copy serves both.
  struct Rows {
    tensor::Tensor input;                         ///< (R, H)
    tensor::Tensor weights;                       ///< (R) fp32
    tensor::Tensor preactivation;                 ///< (R, 2·F); overwritten by its gradient in backward
    tensor::Tensor activation;                    ///< (R, F), with the weight
    fp8::CastBuffer input_cast, activation_cast;  ///< casts of (R, H) and (R, F)
    bool recomputed = false;                      ///< backward recomputes the activation from the preactivation

    /// Allocates the weights, in `received`, and the preactivation.
    static Rows allocate(const Dims& dims, tensor::Arena& arena, tensor::Arena& received);
    /// Allocates the input or its cast, in `received` if it arrives so, and the activation or its cast.
    void allocate_input(const Dims& dims, const fp8::Recipe& recipe, bool in_fp8, tensor::Arena& arena,
                        tensor::Arena& received);
    void allocate_activation(const Dims& dims, const fp8::Recipe& recipe, bool in_fp8, tensor::Arena& arena);
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
    fp8::Site fc1, fc2;               ///< of the inputs of fc1 and fc2; off if the layer is not in FP8

    /// All but `rows` and the sites.
    static Saved allocate(const Dims& dims, tensor::Arena& arena);
  };
  struct Scratch {
    tensor::Tensor all;       ///< u8: the bytes of all members below
    tensor::Tensor logits;    ///< (T, E) fp32
    tensor::Tensor dlogits;   ///< (T, E)
    tensor::Tensor dweights;  ///< (T, K) fp32
    tensor::Tensor dnormed;   ///< (T, H)
    ExpertExchange::Scratch exchange;
    /// (R, H), (R, F). In FP8 forward has the input in doutput, and the activation in dactivation, until they are cast.
    /// doutput is empty if all layers cast before they send.
    tensor::Tensor doutput, dactivation;
    tensor::Tensor activation;        ///< (R, F): Rows::activation of layers that recompute it
    fp8::CastBuffer activation_cast;  ///< Rows::activation_cast of these layers
    fp8::CastBuffer rowwise;          ///< casts that forward alone reads, one after the other; empty if there are none
    CastScratch gradient;             ///< casts of the gradients of fc2's and of fc1's output, one after the other
    /// If tokens are cast before they are sent: (T, H) each, the casts of the tokens and of dy; (R, H), the gradients
    /// of fc2's output that arrive.
    fp8::CastBuffer sent, sent_gradient, arrived_gradient;
    /// The rows of rounds behind the first one; empty if there is never such a round. Layers in FP8 and others use the
    /// same memory.
    Rows further;

    /// What peers write is in `pushed`.
    static Scratch allocate(const Dims& dims, bool recomputes_activation, const fp8::Recipe& recipe,
                            tensor::Arena& arena, tensor::Arena& pushed);
  };
  /// The micro-batch that is routed.
  struct Routed {
    tensor::Tensor token_weights;  ///< (tokens of the micro-batch) fp32: 0 for padding
    std::int64_t step = 0, layer = 0, first_sequence = 0, sequence_stride = 1;  ///< see kernels::MoeDraw
    tensor::Tensor counts{};  ///< (E + kernels::kMoeSums) i32: sums of kernels::moe_count(); empty: nothing is counted
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
  /// Writes saved.rows alone, a second time. The recomputation reads the copy of fc1 that forward reads.
  void recompute(const Context& context, const Saved& saved, const ExpertWeights& w, const Scratch& scratch) const;
  /// Writes the gradients of the experts' weights to dw, or adds them, given dy (T, H), the gradient of y. What
  /// backward() reads stays in `scratch`. Overwrites saved.rows. If a weight has two copies, further rounds read both.
  void backward_experts(const Context& context, const tensor::Tensor& dy, const ExpertGradients& dw, const Saved& saved,
                        const ExpertWeights& w, const Scratch& scratch) const;
  /// Ends the backward of what was routed, after backward_experts(). dx (T, H): on entry the gradient of y, on exit the
  /// gradient of x, the residual path included. x is that of route(). `sequence_scale`: gradients are those of a loss
  /// to which a sequence adds its balance times this.
  void backward(const Context& context, const tensor::Tensor& dx, const Gradients& dw, const tensor::Tensor& x,
                const Saved& saved, const Weights& w, const Scratch& scratch, const Routed& routed,
                float sequence_scale) const;

 private:
  using Round = ExpertRound;
  tensor::Tensor own(const tensor::Tensor& of_micro_batch) const;
  void balance(const Context& context, const Saved& saved, const Routed& routed) const;
  static const Rows& rows_of(std::int64_t round, const Saved& saved, const Scratch& scratch) {
    return round == 0 ? saved.rows : scratch.further;
  }
  using Purpose = fp8::Quantizer::Purpose;
  /// Whether this layer casts tokens before they are sent.
  bool sends_fp8(const Saved& saved) const { return saved.fc1.on() && d_.experts.sends_fp8; }
  /// Casts x (T, H) to `to` for dispatch(), and writes the inverse scale to `scale_inv`. Returns what is sent.
  tensor::Tensor cast_to_send(const Context& context, const fp8::Site& site, const fp8::CastBuffer& to,
                              const tensor::Tensor& scale_inv, const tensor::Tensor& x, Purpose purpose) const;
  /// What is sent of the tokens: as they are, or their cast, which this function writes.
  WeightedRows tokens_to_send(const Context& context, const Saved& saved, const Scratch& scratch,
                              Purpose purpose) const;
  /// Rows [0, n) of a matrix (R, H) that arrive cast.
  static fp8::Operands arrived(const Context& context, fp8::Role role, const fp8::CastBuffer& in,
                               const tensor::Tensor& scale_inv, std::int64_t n, std::int64_t cols);
  /// (1) fp32, kept from forward to backward: the inverse scale of the input that arrives cast.
  static tensor::Tensor input_scale_inv(const Saved& saved);
  /// The input of fc1 as products read it: of forward, of backward.
  fp8::Operands input_of_round(const Context& context, const Round& round, const Rows& rows, const Saved& saved,
                               const Scratch& scratch) const;
  /// What products read of rows [0, n) of a matrix: `plain` (n, C), or if `site` is in FP8 the casts in `kept` and, of
  /// two copies, in Scratch::rowwise, to be written.
  fp8::Operands input_of(const Context& context, const fp8::Site& site, const tensor::Tensor& plain,
                         const fp8::CastBuffer& kept, const Scratch& scratch) const;
  /// As input_of(), of the gradient of a linear's output for the round's rows, and casts it.
  fp8::Operands cast_gradient(const Context& context, const Round& round, const fp8::Site& site,
                              const tensor::Tensor& plain, const Scratch& scratch) const;
  /// Writes `rows`, those of the round; the activation only if `activates`. `sent`: of tokens_to_send(). Returns the
  /// activation as fc2 reads it.
  fp8::Operands compute(const Context& context, const Round& round, const Rows& rows, const WeightedRows& sent,
                        bool activates, Purpose purpose, const Saved& saved, const ExpertWeights& w,
                        const Scratch& scratch) const;
  /// `sent`: dy (T, H), or its cast.
  void backward_round(const Context& context, const Round& round, const tensor::Tensor& sent, const ExpertGradients& dw,
                      const Rows& rows, const Saved& saved, const ExpertWeights& w, const Scratch& scratch) const;

  Norm norm_;
  Dims d_;
  std::int64_t first_token_;  ///< of this rank in the micro-batch
  int group_rank_;
  ExpertExchange exchange_;
};

}  // namespace shard8::model
