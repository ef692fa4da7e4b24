// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <utility>

#include "kernels/attention.hpp"
#include "model/dims.hpp"
#include "model/linear.hpp"
#include "model/moe_mlp.hpp"
#include "tensor/arena.hpp"

namespace shard8::model {

/// Causal attention of this rank's heads, timed as attention. Shapes as in kernels/attention.hpp: qkv and dqkv (tokens,
/// qkv_width), o and dout (tokens, q_width), lse (batch, heads, seq) fp32. For llama queries and keys in qkv are
/// rotated, and so are their gradients in dqkv. If queries and keys have norms, they are normalised before.
struct DotProductAttention {
  kernels::AttentionShape shape;

  /// Writes o, and lse for backward.
  void forward(const Context& context, const tensor::Tensor& o, const tensor::Tensor& lse,
               const tensor::Tensor& qkv) const;
  /// Writes dqkv.
  void backward(const Context& context, const tensor::Tensor& dqkv, const tensor::Tensor& dout, const tensor::Tensor& o,
                const tensor::Tensor& qkv, const tensor::Tensor& lse) const;
};

/// The attention block of a layer: y (T_local, H) = x + attention(norm(x)). The block computes the norm and QKV,
/// normalises queries and keys (if their norms have weights), rotates them (llama), and computes attention and the
/// projection. Collective over the tensor group.
struct MultiheadAttention {
  LayernormLinear qkv;
  DotProductAttention attention;
  RowExchanges proj_exchanges = Overlap().proj();

  struct Weights {
    LayernormLinear::Weights qkv;
    kernels::QkWeights qk_norm{};  ///< (head_dim) each; empty: queries and keys are not normalised
    LinearWeights proj{};
  };
  struct Gradients {
    LayernormLinear::Gradients qkv;
    kernels::QkWeights qk_norm{};  ///< (head_dim) fp32 each, of this rank's heads: added to
    AffineGradient proj{};
  };
  /// What forward writes for backward, in memory that the caller provides.
  struct Saved {
    LayernormLinear::Saved qkv;
    tensor::Tensor unnormed;  ///< (tokens, qk_width), queries and keys before their norm; empty without the norm
    tensor::Tensor rotated;   ///< (tokens, qkv_width), queries and keys after the rotation
    tensor::Tensor lse;       ///< (batch, heads, seq) fp32
    LinearInput proj;         ///< (tokens, q_width): the result of attention, whose cast backward may recompute
  };
  struct Scratch {
    LinearScratch qkv, proj;    ///< may have the same memory, unless proj's wgrad is deferred
    tensor::Tensor dnormed;     ///< (T_local, H)
    tensor::Tensor dheads;      ///< (tokens, q_width)
    tensor::Tensor dqkv;        ///< (tokens, qkv_width)
    tensor::Tensor rope_table;  ///< (2, seq, head_dim/2) fp32, filled; empty: no rotation
  };

  /// Returns y, written or as partial sums, as row_linear_forward says. Writes `saved`, and the sum of x if x is still
  /// partial sums.
  [[nodiscard]] HeldSum forward(const Context& context, const tensor::Tensor& y, const Saved& saved, HeldSum x,
                                const Weights& w, const Scratch& scratch) const;
  /// Begins the backward of proj with dx (T_local, H), the gradient of y.
  RowBackward begin_backward(const Context& context, const tensor::Tensor& dx, const Saved& saved,
                             const Scratch& scratch) const;
  /// Goes on with `proj`. dx (T_local, H): on entry the gradient of y, on exit the gradient of x, the residual path
  /// included. Returns the wgrad of proj if it is deferred.
  [[nodiscard]] std::optional<RowWgrad> backward(const Context& context, RowBackward&& proj, const tensor::Tensor& dx,
                                                 const Gradients& dw, const tensor::Tensor& x, const Saved& saved,
                                                 const Weights& w, const Scratch& scratch) const;

 private:
  kernels::QkHeads qk_heads() const { return {attention.shape.heads, attention.shape.kv_heads}; }
  /// Normalises queries and keys of saved.rotated, if w.qk_norm is not empty, and rotates them.
  void normalise_and_rotate(const Context& context, const Saved& saved, const Weights& w, const Scratch& scratch) const;
  /// The backward of normalise_and_rotate, on scratch.dqkv.
  void rotate_and_normalise_back(const Context& context, const Gradients& dw, const Saved& saved, const Weights& w,
                                 const Scratch& scratch) const;
};

/// Norm, fc1, activation (SwiGLU or GELU), fc2: y (T_local, H) = x + mlp(norm(x)), F = Dims::ffn. Collective over the
/// tensor group.
struct LayernormMlp {
  LayernormLinear fc1;
  RowExchanges fc2_exchanges = Overlap().fc2();

  struct Weights {
    LayernormLinear::Weights fc1;
    LinearWeights fc2;
  };
  struct Gradients {
    LayernormLinear::Gradients fc1;
    AffineGradient fc2;
  };
  /// What forward writes for backward, in memory that the caller provides.
  struct Saved {
    LayernormLinear::Saved fc1;
    tensor::Tensor preactivation;  ///< (tokens, F or 2F); overwritten by its gradient in backward
    LinearInput fc2;  ///< (tokens, F): the activation; if backward recomputes it, fc2's wgrad runs after that
  };
  struct Scratch {
    LinearScratch fc1, fc2;      ///< may have the same memory, unless fc2's wgrad is deferred or runs late, see fc2
    tensor::Tensor dnormed;      ///< (T_local, H)
    tensor::Tensor dactivation;  ///< (tokens, F)
  };

  /// Returns y, written or as partial sums, as row_linear_forward says. Writes `saved`, and the sum of x if x is still
  /// partial sums.
  [[nodiscard]] HeldSum forward(const Context& context, const tensor::Tensor& y, const Saved& saved, HeldSum x,
                                const Weights& w, const Scratch& scratch) const;
  /// Writes only `saved`: forward without fc2. Returns the lease of fc2's input.
  Lease forward_saved(const Context& context, const Saved& saved, HeldSum x, const Weights& w,
                      const Scratch& scratch) const;
  /// Begins the backward of fc2 with dx (T_local, H), the gradient of y.
  RowBackward begin_backward(const Context& context, const tensor::Tensor& dx, const Saved& saved,
                             const Scratch& scratch) const;
  /// Goes on with `fc2`. dx (T_local, H): on entry the gradient of y, on exit the gradient of x, the residual path
  /// included. Overwrites saved.preactivation. Returns the wgrad of fc2 if it is deferred.
  [[nodiscard]] std::optional<RowWgrad> backward(const Context& context, RowBackward&& fc2, const tensor::Tensor& dx,
                                                 const Gradients& dw, const tensor::Tensor& x, const Saved& saved,
                                                 const Weights& w, const Scratch& scratch) const;

 private:
  void activate(const Context& context, const Saved& saved, fp8::Quantizer::Purpose purpose) const;
  kernels::Outputs recomputed_activation(const Context& context, const Saved& saved) const;
  OutputGradient activation_backward(const Context& context, const Saved& saved, const kernels::Outputs& recomputed,
                                     const Scratch& scratch) const;
};

/// One pre-norm transformer layer: attention and MLP, each with its residual. In a layer with experts MoeMlp is the
/// MLP. The experts are a unit of weights of their own, so a layer with experts is computed in two parts: what is
/// routed, with the layer's unit, and the experts.
class TransformerLayer {
 public:
  /// `tensor_rank` and `expert_rank`: the numbers of the rank in its tensor group and in its expert group.
  explicit TransformerLayer(const Dims& dims, int tensor_rank = 0, int expert_rank = 0);

  struct Weights {
    MultiheadAttention::Weights attention;
    LayernormMlp::Weights mlp;
    MoeMlp::Weights moe;
  };
  struct Gradients {
    MultiheadAttention::Gradients attention;
    LayernormMlp::Gradients mlp;
    MoeMlp::Gradients moe;
  };
  /// What forward writes for backward, in memory of LayerMemory. The caller keeps the layer's input.
  struct Saved {
    MultiheadAttention::Saved attention;
    tensor::Tensor middle;  ///< (T_local, H), between attention and MLP
    LayernormMlp::Saved mlp;
    MoeMlp::Saved moe;
  };
  /// Memory that all layers share.
  struct Scratch {
    MultiheadAttention::Scratch attention;
    LayernormMlp::Scratch mlp;
    MoeMlp::Scratch moe;
  };

  /// The weights or the gradients of a layer's unit, as the layer's modules read them. The entries are in the order of
  /// layer_parameters(model, experts); Error(failed) unless there are as many. `accumulate`: see AffineGradient.
  /// `experts`: whether the layer has experts.
  static Weights bind(const deck::ModelConfig& model, std::span<const Weight> weights, bool experts = false);
  static Gradients bind_gradients(const deck::ModelConfig& model, std::span<const tensor::Tensor> tensors,
                                  bool accumulate, bool experts = false);
  /// The weights of a layer's unit of experts, as the layer's modules read them.
  static MoeMlp::ExpertWeights bind_experts(std::span<const Weight> weights);
  static MoeMlp::ExpertGradients bind_expert_gradients(std::span<const tensor::Tensor> tensors, bool accumulate);

  /// Returns y (T_local, H) of x (T_local, H), written or as partial sums, as row_linear_forward says.
  /// Writes `saved`, and the sum of x if x is still partial sums. Collective over the tensor group, as are the other
  /// two.
  [[nodiscard]] HeldSum forward(const Context& context, const tensor::Tensor& y, const Saved& saved, HeldSum x,
                                const Weights& w, const Scratch& scratch) const;
  /// Writes `saved` a second time: forward without fc2, which backward does not need (Recompute::full).
  void recompute(const Context& context, const Saved& saved, const tensor::Tensor& x, const Weights& w,
                 const Scratch& scratch) const;
  /// Begins the backward of the layer that wrote `saved`, with dx (T_local, H), the gradient of its y. Until backward()
  /// the caller must not change dx, and must not compute a layer.
  RowBackward begin_backward(const Context& context, const tensor::Tensor& dx, const Saved& saved,
                             const Scratch& scratch) const;
  /// Goes on with `begun`. dx (T_local, H): on entry the gradient of y, on exit the gradient of x. Overwrites parts of
  /// `saved`. `next` is called once dx is the gradient of x, and before the wgrad of proj if that is deferred: it
  /// begins the gather of dx that is overlapped with the deferred wgrad.
  void backward(const Context& context, RowBackward&& begun, const tensor::Tensor& dx, const Gradients& dw,
                const tensor::Tensor& x, const Saved& saved, const Weights& w, const Scratch& scratch,
                const std::function<void()>& next) const;

  // The functions of a layer with experts. forward() is route(), then forward_experts(); recompute() is the two that
  // recompute; backward() is backward_experts(), then backward_routed(). Arguments are those of the functions above and
  // of MoeMlp.

  /// Attention, and MoeMlp::route. `again`: the layer is recomputed.
  void route(const Context& context, const Saved& saved, HeldSum x, const Weights& w, const Scratch& scratch,
             const MoeMlp::Routed& routed, bool again = false) const;
  [[nodiscard]] HeldSum forward_experts(const Context& context, const tensor::Tensor& y, const Saved& saved,
                                        const MoeMlp::ExpertWeights& w, const Scratch& scratch) const;
  void recompute_experts(const Context& context, const Saved& saved, const MoeMlp::ExpertWeights& w,
                         const Scratch& scratch) const;
  void backward_experts(const Context& context, const tensor::Tensor& dx, const MoeMlp::ExpertGradients& dw,
                        const Saved& saved, const MoeMlp::ExpertWeights& w, const Scratch& scratch) const;
  void backward_routed(const Context& context, const tensor::Tensor& dx, const Gradients& dw, const tensor::Tensor& x,
                       const Saved& saved, const Weights& w, const Scratch& scratch, const MoeMlp::Routed& routed,
                       float sequence_scale, const std::function<void()>& next) const;

 private:
  void backward_attention(const Context& context, const tensor::Tensor& dx, const Gradients& dw,
                          const tensor::Tensor& x, const Saved& saved, const Weights& w, const Scratch& scratch,
                          std::optional<RowWgrad> fc2, const std::function<void()>& next) const;

  MultiheadAttention attention_;
  LayernormMlp mlp_;
  std::optional<MoeMlp> moe_;
};

}  // namespace shard8::model
