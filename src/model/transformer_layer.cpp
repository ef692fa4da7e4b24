// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "model/transformer_layer.hpp"

#include <optional>
#include <utility>

#include "kernels/elementwise.hpp"
#include "model/parameters.hpp"

namespace shard8::model {

using tensor::Tensor;

TransformerLayer::TransformerLayer(const Dims& dims, int tensor_rank, int expert_rank) {
  const Norm norm{dims.arch, dims.norm_eps};
  attention_.qkv.norm = norm;
  attention_.attention.shape = {dims.batch, dims.seq, dims.heads, dims.kv_heads, dims.head_dim, dims.deterministic};
  mlp_.fc1.norm = norm;
  attention_.qkv.exchanges = dims.overlap.qkv();
  mlp_.fc1.exchanges = dims.overlap.fc1();
  attention_.proj_exchanges = dims.overlap.proj();
  mlp_.fc2_exchanges = dims.overlap.fc2();
  if (dims.experts.on()) moe_.emplace(dims, tensor_rank, expert_rank);
}

/// The entries of a layer's unit by module. norm(weight, bias) and linear(weight, bias) make those of a norm and of a
/// linear from their parameters.
template <class Bound, class Norm, class Linear>
Bound by_module(const Norm& norm, const Linear& linear) {
  Bound b;
  b.attention.qkv = {norm(Parameter::norm1_weight, Parameter::norm1_bias),
                     linear(Parameter::qkv_weight, Parameter::qkv_bias)};
  b.attention.proj = linear(Parameter::proj_weight, Parameter::proj_bias);
  b.mlp.fc1 = {norm(Parameter::norm2_weight, Parameter::norm2_bias),
               linear(Parameter::fc1_weight, Parameter::fc1_bias)};
  b.mlp.fc2 = linear(Parameter::fc2_weight, Parameter::fc2_bias);
  b.moe.norm = b.mlp.fc1.norm;
  return b;
}

TransformerLayer::Weights TransformerLayer::bind(const deck::ModelConfig& model, std::span<const Weight> weights,
                                                 bool experts) {
  const ByParameter<Weight> unit(layer_parameters(model, experts), weights);
  auto bound = by_module<Weights>(
      [&](Parameter weight, Parameter bias) {
        return Affine{unit[weight].plain(), unit[bias].plain()};
      },
      [&](Parameter weight, Parameter bias) {
        return LinearWeights{unit[weight], unit[bias].plain()};
      });
  if (model.qk_norm)
    bound.attention.qk_norm = {unit[Parameter::q_norm_weight].plain(), unit[Parameter::k_norm_weight].plain()};
  bound.moe.router = unit[Parameter::router];
  return bound;
}

MoeMlp::ExpertWeights TransformerLayer::bind_experts(std::span<const Weight> weights) {
  const ByParameter<Weight> unit(parameter_order::kExperts, weights);
  return {unit[Parameter::experts_fc1], unit[Parameter::experts_fc2]};
}

MoeMlp::ExpertGradients TransformerLayer::bind_expert_gradients(std::span<const Tensor> tensors, bool accumulate) {
  const ByParameter<Tensor> unit(parameter_order::kExperts, tensors);
  return {unit[Parameter::experts_fc1], unit[Parameter::experts_fc2], accumulate};
}

TransformerLayer::Gradients TransformerLayer::bind_gradients(const deck::ModelConfig& model,
                                                             std::span<const Tensor> tensors, bool accumulate,
                                                             bool experts) {
  const ByParameter<Tensor> unit(layer_parameters(model, experts), tensors);
  const auto affine = [&](Parameter weight, Parameter bias) { return Affine{unit[weight], unit[bias]}; };
  auto bound = by_module<Gradients>(affine, [&](Parameter weight, Parameter bias) {
    return AffineGradient{affine(weight, bias), accumulate};
  });
  bound.attention.qk_norm = {unit[Parameter::q_norm_weight], unit[Parameter::k_norm_weight]};
  bound.moe.router = {{unit[Parameter::router], {}}, accumulate};
  return bound;
}

HeldSum TransformerLayer::forward(const Context& context, const Tensor& y, const Saved& saved, HeldSum x,
                                  const Weights& w, const Scratch& scratch) const {
  HeldSum middle =
      attention_.forward(context, saved.middle, saved.attention, std::move(x), w.attention, scratch.attention);
  return mlp_.forward(context, y, saved.mlp, std::move(middle), w.mlp, scratch.mlp);
}

void TransformerLayer::recompute(const Context& context, const Saved& saved, const Tensor& x, const Weights& w,
                                 const Scratch& scratch) const {
  const operation::Recomputing again(context.executor);
  HeldSum middle = attention_.forward(context, saved.middle, saved.attention, x, w.attention, scratch.attention);
  mlp_.forward_saved(context, saved.mlp, std::move(middle), w.mlp, scratch.mlp);
}

RowBackward TransformerLayer::begin_backward(const Context& context, const Tensor& dx, const Saved& saved,
                                             const Scratch& scratch) const {
  return mlp_.begin_backward(context, dx, saved.mlp, scratch.mlp);
}

void TransformerLayer::backward(const Context& context, RowBackward&& begun, const Tensor& dx, const Gradients& dw,
                                const Tensor& x, const Saved& saved, const Weights& w, const Scratch& scratch,
                                const std::function<void()>& next) const {
  backward_attention(context, dx, dw, x, saved, w, scratch,
                     mlp_.backward(context, std::move(begun), dx, dw.mlp, saved.middle, saved.mlp, w.mlp, scratch.mlp),
                     next);
}

/// `fc2`: its wgrad, if it is deferred.
void TransformerLayer::backward_attention(const Context& context, const Tensor& dx, const Gradients& dw,
                                          const Tensor& x, const Saved& saved, const Weights& w, const Scratch& scratch,
                                          std::optional<RowWgrad> fc2, const std::function<void()>& next) const {
  RowBackward begun_proj = attention_.begin_backward(context, dx, saved.attention, scratch.attention);
  if (fc2) {
    const At at(context.executor, operation::Linear::fc2);
    std::move(*fc2).wgrad(context, dw.mlp.fc2);
  }
  std::optional<RowWgrad> proj = attention_.backward(context, std::move(begun_proj), dx, dw.attention, x,
                                                     saved.attention, w.attention, scratch.attention);
  next();
  if (!proj) return;
  const At at(context.executor, operation::Linear::proj);
  std::move(*proj).wgrad(context, dw.attention.proj);
}

void TransformerLayer::route(const Context& context, const Saved& saved, HeldSum x, const Weights& w,
                             const Scratch& scratch, const MoeMlp::Routed& routed, bool again) const {
  std::optional<operation::Recomputing> recomputing;
  if (again) recomputing.emplace(context.executor);
  HeldSum middle =
      attention_.forward(context, saved.middle, saved.attention, std::move(x), w.attention, scratch.attention);
  moe_->route(context, saved.moe, std::move(middle), w.moe, scratch.moe, routed);
}

HeldSum TransformerLayer::forward_experts(const Context& context, const Tensor& y, const Saved& saved,
                                          const MoeMlp::ExpertWeights& w, const Scratch& scratch) const {
  moe_->forward(context, y, saved.middle, saved.moe, w, scratch.moe);
  return y;
}

void TransformerLayer::recompute_experts(const Context& context, const Saved& saved, const MoeMlp::ExpertWeights& w,
                                         const Scratch& scratch) const {
  moe_->recompute(context, saved.moe, w, scratch.moe);
}

void TransformerLayer::backward_experts(const Context& context, const Tensor& dx, const MoeMlp::ExpertGradients& dw,
                                        const Saved& saved, const MoeMlp::ExpertWeights& w,
                                        const Scratch& scratch) const {
  moe_->backward_experts(context, dx, dw, saved.moe, w, scratch.moe);
}

void TransformerLayer::backward_routed(const Context& context, const Tensor& dx, const Gradients& dw, const Tensor& x,
                                       const Saved& saved, const Weights& w, const Scratch& scratch,
                                       const MoeMlp::Routed& routed, float sequence_scale,
                                       const std::function<void()>& next) const {
  moe_->backward(context, dx, dw.moe, saved.middle, saved.moe, w.moe, scratch.moe, routed, sequence_scale);
  backward_attention(context, dx, dw, x, saved, w, scratch, std::nullopt, next);
}

using fp8::Quantizer;
using fsdp::Pass;
using operation::Kernel;
using operation::Linear;

void LayernormMlp::activate(const Context& context, const Saved& saved, Quantizer::Purpose purpose) const {
  const auto make = [&](const kernels::Outputs& a) {
    const bool llama = fc1.norm.arch == deck::Arch::llama;
    const Tensor& x = saved.preactivation;
    const Kernel kernel{llama ? "swiglu_forward" : "gelu_forward", x.rows(), saved.fc2.plain.cols(), x.dtype,
                        operation::dtype_of(a)};
    context.issue(kernel.reads(x).writes(a), [&](const tensor::Exec& exec) {
      llama ? kernels::swiglu_forward(exec, a, x) : kernels::gelu_forward(exec, a, x);
    });
  };
  const LinearInput& to = saved.fc2;
  if (!to.site.on()) return make(to.plain);
  context.quantizer->produce_and_cast(to.site, to.copies, to.plain, false, Quantizer::Tokens::all, make, purpose);
}

HeldSum LayernormMlp::forward(const Context& context, const Tensor& y, const Saved& saved, HeldSum x, const Weights& w,
                              const Scratch& scratch) const {
  const Tensor residual = x.sum.sum;
  const Lease input = forward_saved(context, saved, std::move(x), w, scratch);
  const At at(context.executor, Linear::fc2);
  return row_linear_forward(context, y, saved.fc2.copies, w.fc2, residual, scratch.fc2, fc2_exchanges.forward);
}

Lease LayernormMlp::forward_saved(const Context& context, const Saved& saved, HeldSum x, const Weights& w,
                                  const Scratch& scratch) const {
  {
    const At at(context.executor, Linear::fc1);
    fc1.forward(context, saved.preactivation, saved.fc1, std::move(x), w.fc1, scratch.fc1);
  }
  const At at(context.executor, Linear::fc2);
  Lease input = saved.fc2.hold(context, "the input of fc2", Pass::forward);
  activate(context, saved, saved.fc2.purpose());
  return input;
}

/// The outputs into which the kernel of the activation's gradient also writes the recomputed activation. Without
/// Quantizer::recomputes_at_once() there are none: this function recomputes and casts the activation itself.
kernels::Outputs LayernormMlp::recomputed_activation(const Context& context, const Saved& saved) const {
  const LinearInput& to = saved.fc2;
  if (!to.site.on()) return to.plain;
  if (context.quantizer->recomputes_at_once())
    return context.quantizer->recomputed_outputs(to.site, to.copies, to.plain);
  const operation::Recomputing again(context.executor);
  activate(context, saved, Quantizer::Purpose::recomputed);
  return {};
}

/// The gradient of fc1's output. A plain gradient overwrites the output, saved.preactivation.
OutputGradient LayernormMlp::activation_backward(const Context& context, const Saved& saved,
                                                 const kernels::Outputs& recomputed, const Scratch& scratch) const {
  const Tensor& plain = saved.preactivation;
  const auto make = [&](const kernels::Outputs& gradient) {
    const bool llama = fc1.norm.arch == deck::Arch::llama;
    const Tensor& da = scratch.dactivation;
    const Kernel kernel{llama ? "swiglu_backward" : "gelu_backward", plain.rows(), plain.cols(), plain.dtype,
                        operation::dtype_of(gradient)};
    context.issue(kernel.reads(da, plain).writes(gradient, recomputed), [&](const tensor::Exec& exec) {
      llama ? kernels::swiglu_backward(exec, gradient, da, plain, recomputed)
            : kernels::gelu_backward(exec, gradient, da, plain, recomputed);
    });
  };
  const At at(context.executor, Linear::fc1);
  const fp8::Site& site = saved.fc1.input.site;
  if (!site.on()) {
    make(plain);
    return plain;
  }
  const bool bias = fc1.norm.arch == deck::Arch::gpt2;
  OutputGradient gradient(context, plain, scratch.fc1.gradient, false);
  context.quantizer->produce_and_cast(site.with(fp8::Role::output_gradient), gradient.copies, plain, bias,
                                      Quantizer::Tokens::all, make);
  return gradient;
}

RowBackward LayernormMlp::begin_backward(const Context& context, const Tensor& dx, const Saved& saved,
                                         const Scratch& scratch) const {
  const At at(context.executor, Linear::fc2);
  return {context, saved.fc2, dx, scratch.fc2, fc2_exchanges.gather};
}

std::optional<RowWgrad> LayernormMlp::backward(const Context& context, RowBackward&& fc2, const Tensor& dx,
                                               const Gradients& dw, const Tensor& x, const Saved& saved,
                                               const Weights& w, const Scratch& scratch) const {
  std::optional<RowWgrad> wgrad;
  const auto wgrad_now = [&] {
    std::move(*wgrad).wgrad(context, dw.fc2);
    wgrad.reset();
  };
  const bool at_once = !fc2_exchanges.wgrad_deferred, recomputed = saved.fc2.recomputed;
  const OutputGradient inner = [&] {
    const At at(context.executor, Linear::fc2);
    const Lease dactivation = context.lease("the gradient of the activation", {scratch.dactivation});
    wgrad = std::move(fc2).dgrad(context, scratch.dactivation, dw.fc2, w.fc2);
    if (at_once && !recomputed) wgrad_now();
    OutputGradient gradient = activation_backward(
        context, saved, recomputed ? recomputed_activation(context, saved) : kernels::Outputs(), scratch);
    if (at_once && recomputed) wgrad_now();
    return gradient;
  }();
  const At at(context.executor, Linear::fc1);
  fc1.backward(context, dx, dw.fc1, inner, x, saved.fc1, w.fc1, scratch.dnormed, scratch.fc1);
  return wgrad;
}

}  // namespace shard8::model
