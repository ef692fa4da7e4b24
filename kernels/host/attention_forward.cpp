// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "kernels/host/attention_blocks.hpp"
#include "kernels/host/attention_tasks.hpp"
#include "kernels/host/transpose.hpp"
#include "kernels/kokkos/dispatch.hpp"
#include "kernels/kokkos/fast_math.hpp"

namespace shard8::kernels {
namespace {

struct Scratch {
  float *rows, *queries, *outputs, *scores, *keys, *values, *largest, *sum;

  explicit Scratch(ScratchCutter& cut, const AttentionLayout& at)
      : rows(cut.take(kBlock * at.padded_dim)),
        queries(cut.take(kBlock * at.padded_dim)),
        outputs(cut.take(kBlock * at.padded_dim)),
        scores(cut.take(kBlock * kBlock)),
        keys(cut.take(kBlock * at.padded_dim)),
        values(cut.take(kBlock * at.padded_dim)),
        largest(cut.take(kBlock)),
        sum(cut.take(kBlock)) {}
};

/// Scores become exp(score − running maximum); outputs and sums so far are rescaled to the new maximum.
void softmax_block(const Scratch& s, std::int64_t keys, std::int64_t dim, bool first) {
  alignas(64) float largest[kBlock], factor[kBlock], sum[kBlock];
#pragma omp simd
  for (std::int64_t i = 0; i < kBlock; ++i) largest[i] = s.largest[i];
  for (std::int64_t j = 0; j < keys; ++j) {
    const float* score = s.scores + j * kBlock;
#pragma omp simd
    for (std::int64_t i = 0; i < kBlock; ++i) largest[i] = score[i] > largest[i] ? score[i] : largest[i];
  }
#pragma omp simd
  for (std::int64_t i = 0; i < kBlock; ++i) {
    factor[i] = fast_exp(s.largest[i] - largest[i]);
    s.largest[i] = largest[i];
    sum[i] = s.sum[i] * factor[i];
  }
  for (std::int64_t j = 0; j < keys; ++j) {
    float* score = s.scores + j * kBlock;
#pragma omp simd
    for (std::int64_t i = 0; i < kBlock; ++i) {
      const float e = fast_exp(score[i] - largest[i]);
      score[i] = e;
      sum[i] += e;
    }
  }
#pragma omp simd
  for (std::int64_t i = 0; i < kBlock; ++i) s.sum[i] = sum[i];
  if (first) return;
  for (std::int64_t d = 0; d < dim; ++d) {
    float* out = s.outputs + d * kBlock;
#pragma omp simd
    for (std::int64_t i = 0; i < kBlock; ++i) out[i] *= factor[i];
  }
}

template <class T>
void query_block(const AttentionLayout& at, const Scratch& s, T* o, float* lse, const T* qkv, std::int64_t b,
                 std::int64_t h, std::int64_t block) {
  const auto dim = at.shape.head_dim, first = block * kBlock, queries = at.tokens(block), lanes = padded(queries);
  load_rows(s.rows, qkv + at.query(b, first, h), at.qkv_stride, queries, dim, at.scale);
  transpose(s.queries, kBlock, s.rows, at.padded_dim, lanes, at.padded_dim);
  std::fill(s.largest, s.largest + kBlock, -std::numeric_limits<float>::infinity());
  std::fill(s.sum, s.sum + kBlock, 0.0f);
  for (std::int64_t n = 0; n <= block; ++n) {
    const bool diagonal = n == block;
    const auto keys = at.tokens(n), kv = h / at.group;
    const auto k = block_scalars(qkv + at.key(b, n * kBlock, kv), at.qkv_stride, keys, dim, s.keys);
    block_products(s.scores, k, s.queries, keys, lanes, dim, diagonal, -std::numeric_limits<float>::infinity());
    softmax_block(s, keys, dim, n == 0);
    const auto v = block_scalars(qkv + at.value(b, n * kBlock, kv), at.qkv_stride, keys, dim, s.values);
    add_over_keys(s.outputs, v, s.scores, keys, lanes, dim, diagonal, n > 0);
  }
  for (std::int64_t d = 0; d < dim; ++d) {
    float* out = s.outputs + d * kBlock;
#pragma omp simd
    for (std::int64_t i = 0; i < kBlock; ++i) out[i] /= s.sum[i];
  }
  transpose(s.rows, at.padded_dim, s.outputs, kBlock, at.padded_dim, lanes);
  store_rows(o + at.out(b, first, h), at.out_stride, s.rows, queries, dim, 1.0f);
  for (std::int64_t i = 0; i < queries; ++i) lse[at.lse(b, first + i, h)] = s.largest[i] + std::log(s.sum[i]);
}

}  // namespace

AttentionPlan plan_forward(const AttentionShape& shape, int threads) {
  const AttentionLayout at(shape);
  ScratchCutter cut(nullptr);
  const Scratch counted(cut, at);
  return {.workers = std::min<std::int64_t>(threads, shape.batch * shape.heads * at.blocks),
          .worker_floats = cut.used()};
}

void attention_forward(const tensor::Exec& exec, const tensor::Tensor& o, const tensor::Tensor& lse,
                       const tensor::Tensor& qkv, const AttentionShape& shape, const tensor::Tensor& workspace) {
  const AttentionLayout at(shape);
  const auto tokens = shape.batch * shape.seq;
  require_count("attention_forward", "o", o, tokens * at.out_stride);
  require_count("attention_forward", "lse", lse, tokens * shape.heads);
  require_count("attention_forward", "qkv", qkv, tokens * at.qkv_stride);
  const auto plan = plan_forward(shape, exec.concurrency());
  require_workspace("attention_forward", workspace, plan_bytes(plan));
  dispatch_real(qkv.dtype, "attention_forward", [&]<class T>(std::type_identity<T>) {
    run_tasks(exec, "shard8::kernels::attention_forward", plan, workspace.data, shape.batch * shape.heads * at.blocks,
              [=, out = o.as<T>(), logs = lse.as<float>(), in = qkv.as<T>()](float* memory, std::int64_t task) {
                ScratchCutter cut(memory);
                const Scratch scratch(cut, at);
                // Later blocks see more keys: long tasks first, so that no thread ends with one.
                const auto heads = at.shape.batch * at.shape.heads, head = task % heads;
                query_block(at, scratch, out, logs, in, head / at.shape.heads, head % at.shape.heads,
                            at.blocks - 1 - task / heads);
              });
  });
}

}  // namespace shard8::kernels
