// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/layernorm_mlp.hpp"

#include "kernels/activation.hpp"

namespace shard8::model {

using fp8::Quantizer;
using operation::Kernel;
using operation::Linear;
using tensor::Tensor;

void LayernormMlp::activate(const Context& context, const Saved& saved, Quantizer::Purpose purpose) const {
  const auto make = [&](const kernels::Outputs& a) {
    const bool llama = fc1.norm.arch == deck::Arch::llama;
    const Tensor& x = saved.preactivation;
    const Kernel kernel{llama ? "swiglu_forward" : "gelu_forward", x.rows(), saved.activation.cols(), x.dtype,
                        operation::dtype_of(a)};
    context.issue(kernel.reads(x).writes(a), [&](const tensor::Exec& exec) {
      llama ? kernels::swiglu_forward(exec, a, x) : kernels::gelu_forward(exec, a, x);
    });
  };
  if (!saved.fc2_site.on()) return make(saved.activation);
  context.quantizer->produce_and_cast(saved.fc2_site, saved.fc2_input, saved.activation, false, Quantizer::Tokens::all,
                                      make, purpose);
}

tensor::PendingSum LayernormMlp::forward(const Context& context, const Tensor& y, const Saved& saved,
                                         const tensor::PendingSum& x, const Weights& w, const Scratch& scratch) const {
  forward_saved(context, saved, x, w, scratch);
  const At at(context.executor, Linear::fc2);
  return row_linear_forward(context, y, saved.fc2_input, w.fc2, x.sum, scratch.linear, fc2_exchanges.forward);
}

void LayernormMlp::forward_saved(const Context& context, const Saved& saved, const tensor::PendingSum& x,
                                 const Weights& w, const Scratch& scratch) const {
  {
    const At at(context.executor, Linear::fc1);
    fc1.forward(context, saved.preactivation, saved.fc1, x, w.fc1, scratch.linear);
  }
  using Purpose = Quantizer::Purpose;
  const At at(context.executor, Linear::fc2);
  activate(context, saved, saved.fc1.recompute ? Purpose::forward_pass : Purpose::both_passes);
}

/// The outputs into which the kernel of the activation's gradient also writes the recomputed activation. With block
/// scales there are none: this function recomputes and casts the activation itself.
kernels::Outputs LayernormMlp::recomputed_activation(const Context& context, const Saved& saved) const {
  if (!saved.fc2_site.on()) return saved.activation;
  if (context.quantizer->recipe().per_tensor())
    return context.quantizer->recomputed_outputs(saved.fc2_site, saved.fc2_input);
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
  if (!saved.fc1.site.on()) {
    make(plain);
    return plain;
  }
  const fp8::Role role = fp8::Role::output_gradient;
  const bool bias = fc1.norm.arch == deck::Arch::gpt2;
  const fp8::Operands cast =
      scratch.linear.gradient.view(context.quantizer->recipe(), role, plain.rows(), plain.cols(), false);
  context.quantizer->produce_and_cast(saved.fc1.site.with(role), cast, plain, bias, Quantizer::Tokens::all, make);
  return {cast, plain};
}

RowBackward LayernormMlp::begin_backward(const Context& context, const Tensor& dx, const Saved& saved,
                                         const Scratch& scratch) const {
  const At at(context.executor, Linear::fc2);
  return {context, output_gradient(context, saved.fc2_site, dx, Quantizer::Tokens::part, scratch.fc2), scratch.fc2,
          fc2_exchanges.gather};
}

void LayernormMlp::backward(const Context& context, RowBackward& fc2, const Tensor& dx, const Gradients& dw,
                            const Tensor& x, const Saved& saved, const Weights& w, const Scratch& scratch) const {
  const bool at_once = !fc2_exchanges.wgrad_deferred;
  const OutputGradient inner = [&] {
    const At at(context.executor, Linear::fc2);
    fc2.dgrad(context, scratch.dactivation, dw.fc2, w.fc2);
    if (at_once && !saved.fc1.recompute) fc2.wgrad(context, dw.fc2, saved.fc2_input);
    const auto recomputed = saved.fc1.recompute ? recomputed_activation(context, saved) : kernels::Outputs();
    const OutputGradient gradient = activation_backward(context, saved, recomputed, scratch);
    if (at_once && saved.fc1.recompute) fc2.wgrad(context, dw.fc2, saved.fc2_input);
    return gradient;
  }();
  const At at(context.executor, Linear::fc1);
  fc1.backward(context, dx, dw.fc1, inner, x, saved.fc1, w.fc1, scratch.dnormed, scratch.linear);
}

}  // namespace shard8::model
