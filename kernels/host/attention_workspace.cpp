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

std::string attention_description(const AttentionShape&, tensor::DType, const Workspace&) {
  return "blocks of 64 queries by 64 keys";
}

}  // namespace shard8::kernels
