// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "operation/executor.hpp"

namespace shard8::operation {

/// Tells the trace and the observer.
void Executor::tell(const Product& product) const {
  if (profile::TraceNote* const note = timer_.note()) {
    note->m = product.rows;
    note->n = product.cols;
    note->k = product.inner;
    note->left = tensor::name_of(product.left.dtype);
    note->right = tensor::name_of(product.right.dtype);
    note->out = tensor::name_of(product.out);
    note->flops = product.flops();
  }
  if (observer_ != nullptr && observer_->product) observer_->product(product);
}

void Executor::set(const Site& site) {
  site_ = site;
  if (profile::TraceRecorder* const trace = timer_.trace())
    trace->site = {site.unit, site.linear ? name_of(*site.linear) : std::string_view()};
}

}  // namespace shard8::operation
