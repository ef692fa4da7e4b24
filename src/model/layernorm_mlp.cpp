// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/layernorm_mlp.hpp"

#include "kernels/activation.hpp"

namespace shard8::model {

using profile::Part;
using tensor::Tensor;

void LayernormMlp::activate(const Context& context, const Saved& saved) const {
  auto part = context.timer.part(Part::elementwise);
  if (fc1.norm.arch == deck::Arch::llama)
    kernels::swiglu_forward(context.exec, saved.activation, saved.preactivation);
  else
    kernels::gelu_forward(context.exec, saved.activation, saved.preactivation);
}

void LayernormMlp::forward(const Context& context, const Tensor& y, const Saved& saved, const Tensor& x,
                           const Weights& w, const Scratch& scratch) const {
  forward_saved(context, saved, x, w, scratch);
  row_linear_forward(context, y, saved.activation, w.fc2, x, scratch.linear);
}

void LayernormMlp::forward_saved(const Context& context, const Saved& saved, const Tensor& x, const Weights& w,
                                 const Scratch& scratch) const {
  fc1.forward(context, saved.preactivation, saved.fc1, x, w.fc1, scratch.linear);
  activate(context, saved);
}

void LayernormMlp::backward(const Context& context, const Tensor& dx, const Gradients& dw, const Tensor& x,
                            const Saved& saved, const Weights& w, const Scratch& scratch) const {
  if (saved.fc1.recompute) activate(context, saved);
  row_linear_backward(context, scratch.dactivation, dw.fc2, dx, saved.activation, w.fc2, scratch.linear);
  {
    auto part = context.timer.part(Part::elementwise);
    if (fc1.norm.arch == deck::Arch::llama)
      kernels::swiglu_backward(context.exec, saved.preactivation, scratch.dactivation, saved.preactivation);
    else
      kernels::gelu_backward(context.exec, saved.preactivation, scratch.dactivation, saved.preactivation);
  }
  fc1.backward(context, dx, dw.fc1, saved.preactivation, x, saved.fc1, w.fc1, scratch.dnormed, scratch.linear);
}

}  // namespace shard8::model
