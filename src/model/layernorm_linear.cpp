// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/layernorm_linear.hpp"

namespace shard8::model {

using Purpose = fp8::Quantizer::Purpose;
using tensor::Tensor;

void LayernormLinear::normalise(const Context& context, const Saved& saved, const tensor::PendingSum& x,
                                const Affine& w, Purpose purpose) const {
  const auto make = [&](const kernels::Outputs& y) {
    if (purpose == Purpose::recomputed)
      norm.recompute(context, y, saved.statistics, x.sum, w);
    else
      norm.forward(context, y, saved.statistics, x, w);
  };
  if (!saved.site.on()) return make(saved.normed);
  context.quantizer->produce_and_cast(saved.site, saved.input, saved.normed, false, fp8::Quantizer::Tokens::part, make,
                                      purpose);
}

void LayernormLinear::forward(const Context& context, const Tensor& y, const Saved& saved, const tensor::PendingSum& x,
                              const Weights& w, const LinearScratch& scratch) const {
  normalise(context, saved, x, w.norm, saved.recompute ? Purpose::forward_pass : Purpose::both_passes);
  column_linear_forward(context, y, saved.input, w.linear, scratch, exchanges.forward);
}

void LayernormLinear::backward(const Context& context, const Tensor& dx, const Gradients& dw, const OutputGradient& dy,
                               const Tensor& x, const Saved& saved, const Weights& w, const Tensor& dnormed,
                               const LinearScratch& scratch) const {
  if (saved.recompute) {
    const operation::Recomputing again(context.executor);
    normalise(context, saved, x, w.norm, Purpose::recomputed);
  }
  const tensor::Summands sum =
      column_linear_backward(context, dnormed, dw.linear, dy, saved.input, w.linear, scratch, exchanges);
  norm.backward(context, dx, dw.norm, sum, x, saved.statistics, w.norm, dx);
}

}  // namespace shard8::model
