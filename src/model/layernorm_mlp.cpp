// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/layernorm_mlp.hpp"

#include "kernels/activation.hpp"

namespace shard8::model {

using fp8::Quantizer;
using fsdp::Pass;
using operation::Kernel;
using operation::Linear;
using tensor::Tensor;

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
