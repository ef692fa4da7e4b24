// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <vector>

#include "kernels/attention.hpp"

namespace shard8::tests {

/// FLOPs of the matrix products of causal attention (half of the square) in forward; backward has 2.5 times as many.
inline double attention_flops(const kernels::AttentionShape& shape) {
  const auto count = [](std::int64_t n) { return static_cast<double>(n); };
  // Two products of seq²/2 pairs by head_dim; each has two operations a term.
  return 2.0 * count(shape.batch) * count(shape.heads) * count(shape.seq) * count(shape.seq) * count(shape.head_dim);
}

struct AttentionReference {
  std::vector<double> o, lse, dqkv;
};

/// Causal attention and its gradients in double, from the definition.
inline AttentionReference attention_reference(const kernels::AttentionShape& s, const std::vector<double>& qkv,
                                              const std::vector<double>& dout) {
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  const auto dim = s.head_dim, row = (s.heads + 2 * s.kv_heads) * dim, out_row = s.heads * dim;
  const double scale = 1 / std::sqrt(static_cast<double>(dim));
  AttentionReference r{std::vector<double>(dout.size()), std::vector<double>(at(s.batch * s.heads * s.seq)),
                       std::vector<double>(qkv.size())};
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t h = 0; h < s.heads; ++h) {
      const auto kv = h / (s.heads / s.kv_heads);
      for (std::int64_t i = 0; i < s.seq; ++i) {
        const auto q = (b * s.seq + i) * row + h * dim, o = (b * s.seq + i) * out_row + h * dim;
        const auto key = [&](std::int64_t j) { return (b * s.seq + j) * row + (s.heads + kv) * dim; };
        const auto value = [&](std::int64_t j) { return key(j) + s.kv_heads * dim; };
        std::vector<double> p(at(i + 1)), dp(at(i + 1));
        double largest = -HUGE_VAL, sum = 0, delta = 0;
        for (std::int64_t j = 0; j <= i; ++j) {
          for (std::int64_t d = 0; d < dim; ++d) p[at(j)] += scale * qkv[at(q + d)] * qkv[at(key(j) + d)];
          largest = std::max(largest, p[at(j)]);
        }
        for (auto& v : p) sum += (v = std::exp(v - largest));
        for (auto& v : p) v /= sum;
        r.lse[at((b * s.heads + h) * s.seq + i)] = largest + std::log(sum);
        for (std::int64_t j = 0; j <= i; ++j) {
          for (std::int64_t d = 0; d < dim; ++d) {
            r.o[at(o + d)] += p[at(j)] * qkv[at(value(j) + d)];
            dp[at(j)] += dout[at(o + d)] * qkv[at(value(j) + d)];
          }
        }
        for (std::int64_t j = 0; j <= i; ++j) delta += p[at(j)] * dp[at(j)];
        for (std::int64_t j = 0; j <= i; ++j) {
          const double ds = p[at(j)] * (dp[at(j)] - delta) * scale;
          for (std::int64_t d = 0; d < dim; ++d) {
            r.dqkv[at(q + d)] += ds * qkv[at(key(j) + d)];
            r.dqkv[at(key(j) + d)] += ds * qkv[at(q + d)];
            r.dqkv[at(value(j) + d)] += p[at(j)] * dout[at(o + d)];
          }
        }
      }
    }
  }
  return r;
}

}  // namespace shard8::tests
