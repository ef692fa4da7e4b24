// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/host/attention_tasks.hpp"

namespace shard8::kernels {

std::size_t plan_bytes(const AttentionPlan& plan) {
  return static_cast<std::size_t>(kCounterBytes) +
         static_cast<std::size_t>(plan.workers * plan.worker_floats) * sizeof(float);
}

std::size_t attention_workspace_bytes(const AttentionShape& shape, int threads) {
  return std::max(plan_bytes(plan_forward(shape, threads)), plan_bytes(plan_backward(shape, threads)));
}

double attention_flops(const AttentionShape& shape) {
  const auto count = [](std::int64_t n) { return static_cast<double>(n); };
  // Two products of seq²/2 pairs by head_dim, two operations each.
  return 2.0 * count(shape.batch) * count(shape.heads) * count(shape.seq) * count(shape.seq) * count(shape.head_dim);
}

}  // namespace shard8::kernels
