// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/sdpa_graphs.hpp"

#include <cmath>
#include <limits>

namespace shard8::kernels::cuda {
namespace {

constexpr auto kBf16 = CUDNN_DATA_BFLOAT16;
constexpr auto kFp32 = CUDNN_DATA_FLOAT;

/// The layouts of all tensors, (batch, heads, rows, columns).
struct Layouts {
  Layout q, k, k_transposed, out, row, scores, scores_transposed, full;

  explicit Layouts(const SdpaPart& part) {
    const auto& w = part.whole;
    const auto b = part.batch, h = part.heads(), kv = part.kv_heads, s = w.seq, d = w.head_dim,
               columns = w.qkv_columns();
    q = {{b, h, s, d}, {s * columns, d, columns, 1}};
    k = {{b, kv, s, d}, {s * columns, d, columns, 1}};
    k_transposed = {{b, kv, d, s}, {s * columns, d, 1, columns}};
    out = {{b, h, s, d}, {s * w.heads * d, d, w.heads * d, 1}};
    row = {{b, h, s, 1}, {w.heads * s, s, 1, 1}};
    scores = Layout::row_major(b, h, s, s);
    scores_transposed = {scores.extents, {h * s * s, s * s, 1, s}};
    full = Layout::row_major(b, h, s, d);
  }
};

float scale_of(const SdpaPart& part) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(part.whole.head_dim)));
}

constexpr float kHidden = -std::numeric_limits<float>::infinity();

}  // namespace

Graph sdpa_forward_graph(const SdpaPart& part) {
  const Layouts at(part);
  Graph g;
  Graph::Tensor q = g.in_memory(kQ, kBf16, at.q);
  Graph::Tensor k_transposed = g.in_memory(kK, kBf16, at.k_transposed);
  Graph::Tensor v = g.in_memory(kV, kBf16, at.k);
  Graph::Tensor o = g.in_memory(kO, kBf16, at.out);
  Graph::Tensor lse = g.in_memory(kLse, kFp32, at.row);

  Graph::Tensor scores = g.matmul(q, k_transposed, kFp32, at.scores);
  Graph::Tensor scaled = g.pointwise(CUDNN_POINTWISE_MUL, scores, g.number(scale_of(part)));
  Graph::Tensor seen = g.lower_triangle(scaled, g.number(kHidden));
  Graph::Tensor largest = g.reduce(CUDNN_REDUCE_TENSOR_MAX, seen, at.row);
  Graph::Tensor e = g.pointwise(CUDNN_POINTWISE_EXP, g.pointwise(CUDNN_POINTWISE_SUB, seen, largest));
  Graph::Tensor sum = g.reduce(CUDNN_REDUCE_TENSOR_ADD, e, at.row);
  g.pointwise_into(lse, CUDNN_POINTWISE_ADD, largest, g.pointwise(CUDNN_POINTWISE_LOG, sum));
  Graph::Tensor p = g.pointwise_as(kBf16, CUDNN_POINTWISE_DIV, e, sum);
  g.matmul_into(o, p, v);
  return g;
}

Graph sdpa_backward_graph(const SdpaPart& part) {
  const Layouts at(part);
  const bool grouped = part.heads() != part.kv_heads;
  Graph g;
  Graph::Tensor q = g.in_memory(kQ, kBf16, at.q);
  Graph::Tensor k_transposed = g.in_memory(kK, kBf16, at.k_transposed);
  Graph::Tensor v_transposed = g.in_memory(kV, kBf16, at.k_transposed);
  Graph::Tensor o = g.in_memory(kO, kBf16, at.out);
  Graph::Tensor dout = g.in_memory(kDo, kBf16, at.out);
  Graph::Tensor lse = g.in_memory(kLse, kFp32, at.row);
  Graph::Tensor dq = g.in_memory(kDq, kBf16, at.q);
  Graph::Tensor dk = g.in_memory(kDk, kBf16, at.k);
  Graph::Tensor dv = g.in_memory(kDv, kBf16, at.k);
  Graph::Tensor delta = g.in_memory(kDelta, kFp32, Layout::row_major(part.batch, part.heads(), part.whole.seq, 1));
  Graph::Tensor scale = g.number(scale_of(part)), hidden = g.number(kHidden), one = g.number(1.0f);

  // delta = Σ dout·o, for each query.
  Graph::Tensor product = g.pointwise(CUDNN_POINTWISE_MUL, dout, o);
  g.pointwise_into(delta, CUDNN_POINTWISE_MUL, g.reduce(CUDNN_REDUCE_TENSOR_ADD, product, delta.layout), one);

  // The gradient of k or v. With grouped queries it is summed over the query heads of the group.
  const auto key_gradient = [&](Graph::Tensor y, Graph::Tensor of_scores, Graph::Tensor x) {
    Graph::Tensor transposed = g.reshape(of_scores, kBf16, at.scores_transposed);
    if (grouped) {
      g.reduce_into(y, CUDNN_REDUCE_TENSOR_ADD, g.matmul(transposed, x, kBf16, at.full));
    } else {
      g.matmul_into(y, transposed, x);
    }
  };

  // p = exp(scores − lse), dv = pᵀ·dout.
  Graph::Tensor scores = g.matmul(q, k_transposed, kFp32, at.scores);
  Graph::Tensor scaled = g.pointwise(CUDNN_POINTWISE_MUL, scores, scale);
  Graph::Tensor shifted = g.pointwise(CUDNN_POINTWISE_SUB, scaled, lse);
  Graph::Tensor p = g.pointwise(CUDNN_POINTWISE_EXP, g.lower_triangle(shifted, hidden));
  key_gradient(dv, p, dout);

  // ds = p·(dout·vᵀ − delta)·scale, dk = dsᵀ·q.
  Graph::Tensor dp = g.matmul(dout, v_transposed, kFp32, at.scores);
  Graph::Tensor centred = g.pointwise(CUDNN_POINTWISE_SUB, dp, delta);
  Graph::Tensor ds = g.pointwise(CUDNN_POINTWISE_MUL, g.pointwise(CUDNN_POINTWISE_MUL, centred, p), scale);
  key_gradient(dk, ds, q);

  // dq = ds·k. If deterministic, dq is computed from all of ds. Otherwise tiles of keys add to dq in any order.
  Graph::Tensor k = g.reshape(k_transposed, kBf16, at.k);
  if (part.whole.deterministic) {
    g.matmul_into(dq, ds, k);
  } else {
    Graph::Tensor sum = g.in_memory(kDqSum, kFp32, at.full);
    g.matmul_into(sum, ds, k);
    g.pointwise_into(dq, CUDNN_POINTWISE_IDENTITY, sum);
  }
  return g;
}

}  // namespace shard8::kernels::cuda
