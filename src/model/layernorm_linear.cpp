// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/layernorm_linear.hpp"

namespace shard8::model {

using tensor::Tensor;

void LayernormLinear::forward(const Context& context, const Tensor& y, const Saved& saved, const Tensor& x,
                              const Weights& w, const LinearScratch& scratch) const {
  norm.forward(context, saved.normed, saved.statistics, x, w.norm);
  column_linear_forward(context, y, saved.normed, w.linear, scratch);
}

void LayernormLinear::backward(const Context& context, const Tensor& dx, const Gradients& dw, const Tensor& dy,
                               const Tensor& x, const Saved& saved, const Weights& w, const Tensor& dnormed,
                               const LinearScratch& scratch) const {
  if (saved.recompute) norm.forward(context, saved.normed, saved.statistics, x, w.norm);
  column_linear_backward(context, dnormed, dw.linear, dy, saved.normed, w.linear, scratch);
  norm.backward(context, dx, dw.norm, dnormed, x, saved.statistics, w.norm, dx);
}

}  // namespace shard8::model
