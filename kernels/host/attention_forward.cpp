// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "kernels/check/arguments.hpp"
#include "kernels/host/attention_blocks.hpp"
#include "kernels/host/micro_gemm.hpp"
#include "kernels/kokkos/fast_math.hpp"

namespace shard8::kernels {
namespace {

struct Scratch {
  float *rows, *queries, *outputs, *scores, *keys, *values, *largest, *sum;

  Scratch(ScratchCutter& cut, const AttentionLayout& at, bool whole_heads)
      : rows(cut.take(kBlock * at.padded_dim)),
        queries(cut.take(kBlock * at.padded_dim)),
        outputs(cut.take(kBlock * at.padded_dim)),
        scores(cut.take(kBlock * kBlock)),
        keys(cut.take(KeyBlocks<float>::floats(at, whole_heads))),
        values(cut.take(KeyBlocks<float>::floats(at, whole_heads))),
        largest(cut.take(kBlock)),
        sum(cut.take(kBlock)) {}
};

template <class T>
struct Arrays {
  T* o;
  float* lse;
  const T* qkv;
};

/// Replaces scores by exp(score − running maximum), and rescales outputs and sums so far to the new maximum.
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

/// The output of one kv head in one sequence b, computed by one thread.
template <class T>
class HeadOutput {
 public:
  HeadOutput(const AttentionLayout& at, const Scratch& s, const Arrays<T>& arrays, std::int64_t b, std::int64_t kv,
             bool whole)
      : at_(at),
        s_(s),
        arrays_(arrays),
        b_(b),
        kv_(kv),
        whole_(whole),
        key_blocks_(at, arrays.qkv, b, kv, s.keys, s.values, whole) {}

  /// Computes all query heads of this kv head, one after the other.
  void all() {
    const auto begin = kv_ * at_.group;
    for (auto h = begin; h < begin + at_.group; ++h) {
      for (std::int64_t i = 0; i < at_.blocks; ++i) {
        if (h == begin) key_blocks_.load(i);
        block(h, i);
      }
    }
  }

  /// Computes query block i of head h.
  void block(std::int64_t h, std::int64_t i) {
    constexpr float kHidden = -std::numeric_limits<float>::infinity();
    const auto dim = at_.shape.head_dim, first = i * kBlock, queries = at_.tokens(i), lanes = padded(queries),
               width = at_.padded_dim;
    load_rows(s_.rows, arrays_.qkv + at_.query(b_, first, h), at_.qkv_stride, queries, dim, at_.scale);
    transpose(s_.queries, kBlock, s_.rows, width, lanes, width);
    std::fill(s_.largest, s_.largest + kBlock, kHidden);
    std::fill(s_.sum, s_.sum + kBlock, 0.0f);
    for (std::int64_t j = 0; j <= i; ++j) {
      const bool diagonal = i == j;
      const auto keys = at_.tokens(j);
      if (!whole_) key_blocks_.load(j);
      block_products(s_.scores, key_blocks_.keys(j), s_.queries, keys, lanes, dim, diagonal, kHidden);
      softmax_block(s_, keys, dim, j == 0);
      add_over_keys(s_.outputs, key_blocks_.values(j), s_.scores, keys, lanes, dim, diagonal, j > 0);
    }
    for (std::int64_t d = 0; d < dim; ++d) {
      float* out = s_.outputs + d * kBlock;
#pragma omp simd
      for (std::int64_t l = 0; l < kBlock; ++l) out[l] /= s_.sum[l];
    }
    transpose(s_.rows, width, s_.outputs, kBlock, width, lanes);
    store_rows(arrays_.o + at_.out(b_, first, h), at_.out_stride, s_.rows, queries, dim, 1.0f);
    float* lse = arrays_.lse + at_.lse(b_, first, h);
    for (std::int64_t l = 0; l < queries; ++l) lse[l] = s_.largest[l] + std::log(s_.sum[l]);
  }

 private:
  const AttentionLayout& at_;
  const Scratch& s_;
  const Arrays<T>& arrays_;
  std::int64_t b_, kv_;
  bool whole_;
  KeyBlocks<T> key_blocks_;
};

template <class T>
void forward(const tensor::Exec& exec, const AttentionLayout& at, const AttentionPlan& plan, const Arrays<T>& arrays,
             std::byte* workspace) {
  constexpr auto kLabel = "shard8::kernels::attention_forward";
  const auto heads = at.shape.heads, kv_heads = at.shape.kv_heads, batch = at.shape.batch;
  if (plan.whole_heads) {
    run_tasks(exec, kLabel, plan, workspace, batch * kv_heads, [=](float* memory, std::int64_t task) {
      ScratchCutter cut(memory);
      const Scratch scratch(cut, at, true);
      HeadOutput(at, scratch, arrays, task / kv_heads, task % kv_heads, true).all();
    });
    return;
  }
  run_tasks(exec, kLabel, plan, workspace, batch * heads * at.blocks, [=](float* memory, std::int64_t task) {
    ScratchCutter cut(memory);
    const Scratch scratch(cut, at, false);
    // Later blocks see more keys. Long tasks run first, so that no thread has a long task at the end.
    const auto head = task % (batch * heads), h = head % heads;
    HeadOutput(at, scratch, arrays, head / heads, h / at.group, false).block(h, at.blocks - 1 - task / (batch * heads));
  });
}

}  // namespace

AttentionPlan plan_forward(const AttentionShape& shape, int threads) {
  // Work of the two ways, in tenths: by blocks, keys and values are loaded once for every pair of blocks, a tenth more
  // work.
  return plan_pass<Scratch>(shape, threads, 10, 11);
}

void attention_forward(const tensor::Exec& exec, const tensor::Tensor& o, const tensor::Tensor& lse,
                       const tensor::Tensor& qkv, const AttentionShape& shape, const Workspace& workspace) {
  constexpr auto kName = "attention_forward";
  const AttentionLayout at(shape);
  const auto tokens = shape.batch * shape.seq;
  require_count(kName, "o", o, tokens * at.out_stride);
  require_count(kName, "lse", lse, tokens * shape.heads);
  require_count(kName, "qkv", qkv, tokens * at.qkv_stride);
  const auto plan = plan_forward(shape, exec.concurrency());
  require_workspace(kName, workspace.memory, plan_bytes(plan));
  dispatch_real(qkv.dtype, kName, [&]<class T>(std::type_identity<T>) {
    forward<T>(exec, at, plan, {o.as<T>(), lse.as<float>(), qkv.as<T>()}, workspace.memory.data);
  });
}

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
