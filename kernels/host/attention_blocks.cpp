// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/host/attention_blocks.hpp"

#include <cmath>

#include "base/error.hpp"

namespace shard8::kernels {

AttentionLayout::AttentionLayout(const AttentionShape& s)
    : shape(s),
      group(s.kv_heads > 0 ? s.heads / s.kv_heads : 0),
      blocks((s.seq + kBlock - 1) / kBlock),
      padded_dim(padded(s.head_dim)),
      qkv_stride((s.heads + 2 * s.kv_heads) * s.head_dim),
      out_stride(s.heads * s.head_dim),
      scale(static_cast<float>(1.0 / std::sqrt(static_cast<double>(s.head_dim)))) {
  SHARD8_REQUIRE(s.kv_heads > 0 && s.heads % s.kv_heads == 0, "attention: {} heads on {} kv heads; must divide",
                 s.heads, s.kv_heads);
}

void block_products(float* c, const Scalars& a, const float* b, std::int64_t keys, std::int64_t lanes, std::int64_t dim,
                    bool diagonal, float hidden) {
  if (!diagonal) return micro_gemm(c, kBlock, a, b, kBlock, keys, lanes, dim, false);
  for (std::int64_t first = 0; first < keys; first += kLanes) {
    const auto rows = std::min<std::int64_t>(kLanes, keys - first);
    micro_gemm(c + first * kBlock + first, kBlock, {a.data + first * a.row, a.row, a.column}, b + first, kBlock, rows,
               lanes - first, dim, false);
    for (std::int64_t j = first; j < first + rows; ++j) std::fill(c + j * kBlock, c + j * kBlock + j, hidden);
  }
}

void add_over_keys(float* c, const Scalars& a, const float* p, std::int64_t keys, std::int64_t lanes, std::int64_t dim,
                   bool diagonal, bool accumulate) {
  const Scalars transposed{a.data, a.column, a.row};
  if (!diagonal) return micro_gemm(c, kBlock, transposed, p, kBlock, dim, lanes, keys, accumulate);
  constexpr std::int64_t kStep = 2 * kLanes;
  for (std::int64_t first = 0; first < lanes; first += kStep) {
    micro_gemm(c + first, kBlock, transposed, p + first, kBlock, dim, std::min(kStep, lanes - first),
               std::min(keys, first + kStep), accumulate);
  }
}

void add_over_queries(float* c, const float* p, const float* b, std::int64_t keys, std::int64_t lanes,
                      std::int64_t width, bool diagonal, bool accumulate) {
  if (!diagonal) return micro_gemm(c, width, {p, kBlock, 1}, b, width, keys, width, lanes, accumulate);
  for (std::int64_t first = 0; first < keys; first += kLanes) {
    const auto rows = std::min<std::int64_t>(kLanes, keys - first);
    micro_gemm(c + first * width, width, {p + first * kBlock + first, kBlock, 1}, b + first * width, width, rows, width,
               lanes - first, accumulate);
  }
}

std::size_t plan_bytes(const AttentionPlan& plan) {
  return static_cast<std::size_t>(kCounterBytes) +
         static_cast<std::size_t>(plan.workers * plan.worker_floats) * sizeof(float);
}

std::size_t attention_workspace_bytes(const AttentionShape& shape, int threads) {
  return std::max(plan_bytes(plan_forward(shape, threads)), plan_bytes(plan_backward(shape, threads)));
}

}  // namespace shard8::kernels
