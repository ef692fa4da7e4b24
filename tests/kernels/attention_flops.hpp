// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention.hpp"

namespace shard8::tests {

/// FLOPs of the matrix products of causal attention (half of the square) in forward; backward has 2.5 times as many.
inline double attention_flops(const kernels::AttentionShape& shape) {
  const auto count = [](std::int64_t n) { return static_cast<double>(n); };
  // Two products of seq²/2 pairs by head_dim; each has two operations a term.
  return 2.0 * count(shape.batch) * count(shape.heads) * count(shape.seq) * count(shape.seq) * count(shape.head_dim);
}

}  // namespace shard8::tests
