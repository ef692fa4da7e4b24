// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "deck/config.hpp"
#include "operation/operation.hpp"

namespace shard8::project {

/// What remains of the weights of a layer of llama on one of `tensor` ranks if its MLP has no gate.
inline double share_without_gate(const deck::ModelConfig& model, int tensor) {
  const auto h = static_cast<double>(model.hidden), f = static_cast<double>(model.ffn);
  const auto q = static_cast<double>(model.query_width()), k = static_cast<double>(model.key_width());
  const double qk_norms = model.qk_norm ? 2 * static_cast<double>(model.head_width()) : 0;
  const double others = (h * (q + 2 * k) + h * q) / tensor + 2 * h + qk_norms, projection = h * f / tensor;
  return (others + 2 * projection) / (others + 3 * projection);
}

/// Whether an operation adds a micro-batch's reduced gradients to the gradient shards (fsdp.accumulate: sharded). It is
/// of phase backward, but runs when the reduction is over, maybe in the next micro-batch.
inline bool adds_gradients(const operation::Operation& operation) {
  return operation.kernel() != nullptr && operation.kernel()->name == "add_gradients";
}

/// Whether a kernel works on weights or gradients of a whole unit: casts, sums of squares, the optimizer, zeros.
inline bool is_of_weights(const operation::Kernel& kernel, const operation::Operation& operation) {
  if (operation.location.linear) return false;
  for (const char* of_tokens :
       {"rope", "qk_norm", "rmsnorm", "layernorm", "embedding", "position", "make_sum", "residual"})
    if (kernel.name.starts_with(of_tokens)) return false;
  return true;
}

}  // namespace shard8::project
