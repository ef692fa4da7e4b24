// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "kernels/check/arguments.hpp"
#include "kernels/host/attention_blocks.hpp"
#include "kernels/host/micro_gemm.hpp"
#include "kernels/kokkos/fast_math.hpp"

namespace shard8::kernels {
namespace {

struct Scratch {
  float *queries, *queries_t, *douts, *douts_t, *dqueries_t, *p, *ds, *lse, *delta;
  float *keys, *values, *dkeys, *dvalues;  ///< for a whole kv head, or for one block

  Scratch(ScratchCutter& cut, const AttentionLayout& at, bool whole_heads)
      : queries(cut.take(kBlock * at.padded_dim)),
        queries_t(cut.take(kBlock * at.padded_dim)),
        douts(cut.take(kBlock * at.padded_dim)),
        douts_t(cut.take(kBlock * at.padded_dim)),
        dqueries_t(cut.take(kBlock * at.padded_dim)),
        p(cut.take(kBlock * kBlock)),
        ds(cut.take(kBlock * kBlock)),
        lse(cut.take(kBlock)),
        delta(cut.take(kBlock)),
        keys(cut.take(KeyBlocks<float>::floats(at, whole_heads))),
        values(cut.take(KeyBlocks<float>::floats(at, whole_heads))),
        dkeys(cut.take(KeyBlocks<float>::floats(at, whole_heads))),
        dvalues(cut.take(KeyBlocks<float>::floats(at, whole_heads))) {}
};

template <class T>
struct Arrays {
  T* dqkv;
  const T *dout, *o, *qkv;
  const float* lse;
};

/// The gradients of one kv head in one sequence b, computed by one thread.
template <class T>
class HeadGradient {
 public:
  HeadGradient(const AttentionLayout& at, const Scratch& s, const Arrays<T>& arrays, std::int64_t b, std::int64_t kv,
               bool whole)
      : at_(at),
        s_(s),
        arrays_(arrays),
        b_(b),
        kv_(kv),
        begin_(kv * at.group),
        end_(begin_ + at.group),
        dim_(at.shape.head_dim),
        whole_(whole),
        key_blocks_(at, arrays.qkv, b, kv, s.keys, s.values, whole) {}

  /// All gradients of this kv head, in one pass.
  void all() {
    for (auto h = begin_; h < end_; ++h) {
      for (std::int64_t i = 0; i < at_.blocks; ++i) {
        if (h == begin_) key_blocks_.load(i);
        load_queries(h, i);
        for (std::int64_t j = 0; j <= i; ++j) {
          probabilities(i, j);
          add_query_gradient(i, j);
          add_key_gradients(h, i, j);
        }
        store_query_gradient(h, i);
      }
    }
    for (std::int64_t j = 0; j < at_.blocks; ++j) store_key_gradients(j);
  }
  /// Computes dq of query block i of head h.
  void queries(std::int64_t h, std::int64_t i) {
    load_queries(h, i);
    for (std::int64_t j = 0; j <= i; ++j) {
      key_blocks_.load(j);
      probabilities(i, j);
      add_query_gradient(i, j);
    }
    store_query_gradient(h, i);
  }
  /// Computes dk and dv of key block j.
  void keys(std::int64_t j) {
    key_blocks_.load(j);
    for (auto h = begin_; h < end_; ++h) {
      for (auto i = j; i < at_.blocks; ++i) {
        load_queries(h, i);
        probabilities(i, j);
        add_key_gradients(h, i, j);
      }
    }
    store_key_gradients(j);
  }

 private:
  /// Loads the scaled queries and the output gradients of a block, by rows and transposed, and computes delta = Σ_d
  /// dout·o.
  void load_queries(std::int64_t h, std::int64_t i) {
    const auto first = i * kBlock, rows = at_.tokens(i), lanes = padded(rows), width = at_.padded_dim;
    const T *dout = arrays_.dout + at_.out(b_, first, h), *o = arrays_.o + at_.out(b_, first, h);
    load_rows(s_.queries, arrays_.qkv + at_.query(b_, first, h), at_.qkv_stride, rows, dim_, at_.scale);
    load_rows(s_.douts, dout, at_.out_stride, rows, dim_, 1.0f);
    transpose(s_.queries_t, kBlock, s_.queries, width, lanes, width);
    transpose(s_.douts_t, kBlock, s_.douts, width, lanes, width);
    for (std::int64_t r = 0; r < rows; ++r) {
      const float* g = s_.douts + r * width;
      const T* y = o + r * at_.out_stride;
      float sum = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t d = 0; d < dim_; ++d) sum += g[d] * static_cast<float>(y[d]);
      s_.delta[r] = sum;
      s_.lse[r] = arrays_.lse[at_.lse(b_, first + r, h)];
    }
    // Lanes without a query have an output gradient of 0, so delta and lse may be any finite number there.
    std::fill(s_.delta + rows, s_.delta + kBlock, 0.0f);
    std::fill(s_.lse + rows, s_.lse + kBlock, 0.0f);
  }

  /// Computes p = exp(score − lse) and ds = p·(dout·v − delta) of query block i and key block j, both as (keys,
  /// queries).
  void probabilities(std::int64_t i, std::int64_t j) {
    constexpr float kHidden = -std::numeric_limits<float>::infinity();
    const bool diagonal = i == j;
    const auto keys = at_.tokens(j), lanes = padded(at_.tokens(i));
    block_products(s_.p, key_blocks_.keys(j), s_.queries_t, keys, lanes, dim_, diagonal, kHidden);
    block_products(s_.ds, key_blocks_.values(j), s_.douts_t, keys, lanes, dim_, diagonal, 0.0f);
    const float *lse = s_.lse, *delta = s_.delta;
    for (std::int64_t k = 0; k < keys; ++k) {
      float *p = s_.p + k * kBlock, *ds = s_.ds + k * kBlock;
#pragma omp simd
      for (std::int64_t l = 0; l < lanes; ++l) {
        p[l] = fast_exp(p[l] - lse[l]);
        ds[l] = p[l] * (ds[l] - delta[l]);
      }
    }
  }

  void add_query_gradient(std::int64_t i, std::int64_t j) {
    add_over_keys(s_.dqueries_t, key_blocks_.keys(j), s_.ds, at_.tokens(j), padded(at_.tokens(i)), dim_, i == j, j > 0);
  }

  void add_key_gradients(std::int64_t h, std::int64_t i, std::int64_t j) {
    const auto width = at_.padded_dim, lanes = padded(at_.tokens(i)), keys = at_.tokens(j);
    const bool accumulate = h != begin_ || i != j;
    add_over_queries(s_.dvalues + slot(j), s_.p, s_.douts, keys, lanes, width, i == j, accumulate);
    add_over_queries(s_.dkeys + slot(j), s_.ds, s_.queries, keys, lanes, width, i == j, accumulate);
  }

  void store_query_gradient(std::int64_t h, std::int64_t i) {
    const auto width = at_.padded_dim, rows = at_.tokens(i);
    transpose(s_.queries, width, s_.dqueries_t, kBlock, width, padded(rows));
    store_rows(arrays_.dqkv + at_.query(b_, i * kBlock, h), at_.qkv_stride, s_.queries, rows, dim_, at_.scale);
  }

  void store_key_gradients(std::int64_t j) {
    const auto rows = at_.tokens(j);
    T *dkeys = arrays_.dqkv + at_.key(b_, j * kBlock, kv_), *dvalues = arrays_.dqkv + at_.value(b_, j * kBlock, kv_);
    store_rows(dkeys, at_.qkv_stride, s_.dkeys + slot(j), rows, dim_, 1.0f);
    store_rows(dvalues, at_.qkv_stride, s_.dvalues + slot(j), rows, dim_, 1.0f);
  }

  std::int64_t slot(std::int64_t j) const { return whole_ ? j * kBlock * at_.padded_dim : 0; }

  const AttentionLayout& at_;
  const Scratch& s_;
  const Arrays<T>& arrays_;
  std::int64_t b_, kv_, begin_, end_, dim_;
  bool whole_;
  KeyBlocks<T> key_blocks_;
};

template <class T>
void backward(const tensor::Exec& exec, const AttentionLayout& at, const AttentionPlan& plan, const Arrays<T>& arrays,
              std::byte* workspace) {
  const auto batch = at.shape.batch, heads = at.shape.heads, kv_heads = at.shape.kv_heads;
  const auto run = [&](const char* label, std::int64_t tasks, const auto& work) {
    run_tasks(exec, label, plan, workspace, tasks,
              [=, whole_heads = plan.whole_heads](float* memory, std::int64_t task) {
                ScratchCutter cut(memory);
                const Scratch scratch(cut, at, whole_heads);
                work(scratch, task);
              });
  };
  if (plan.whole_heads) {
    run("shard8::kernels::attention_backward", batch * kv_heads, [=](const Scratch& scratch, std::int64_t task) {
      HeadGradient(at, scratch, arrays, task / kv_heads, task % kv_heads, true).all();
    });
    return;
  }
  // Long tasks first: the last queries see all keys, and all queries see the first keys.
  run("shard8::kernels::attention_backward_q", batch * heads * at.blocks,
      [=](const Scratch& scratch, std::int64_t task) {
        const auto head = task % (batch * heads), h = head % heads;
        HeadGradient(at, scratch, arrays, head / heads, h / at.group, false)
            .queries(h, at.blocks - 1 - task / (batch * heads));
      });
  run("shard8::kernels::attention_backward_kv", batch * kv_heads * at.blocks,
      [=](const Scratch& scratch, std::int64_t task) {
        const auto head = task % (batch * kv_heads);
        HeadGradient(at, scratch, arrays, head / kv_heads, head % kv_heads, false).keys(task / (batch * kv_heads));
      });
}

}  // namespace

AttentionPlan plan_backward(const AttentionShape& shape, int threads) {
  // Matrix products for a pair of blocks: 5 in one pass over whole heads, 3 + 4 in two passes by blocks.
  return plan_pass<Scratch>(shape, threads, 5, 7);
}

void attention_backward(const tensor::Exec& exec, const tensor::Tensor& dqkv, const tensor::Tensor& dout,
                        const tensor::Tensor& o, const tensor::Tensor& qkv, const tensor::Tensor& lse,
                        const AttentionShape& shape, const Workspace& workspace) {
  constexpr auto kName = "attention_backward";
  const AttentionLayout at(shape);
  const auto tokens = shape.batch * shape.seq;
  require_count(kName, "dqkv", dqkv, tokens * at.qkv_stride);
  require_count(kName, "qkv", qkv, tokens * at.qkv_stride);
  require_count(kName, "dout", dout, tokens * at.out_stride);
  require_count(kName, "o", o, tokens * at.out_stride);
  require_count(kName, "lse", lse, tokens * shape.heads);
  const auto plan = plan_backward(shape, exec.concurrency());
  require_workspace(kName, workspace.memory, plan_bytes(plan));
  dispatch_real(qkv.dtype, kName, [&]<class T>(std::type_identity<T>) {
    backward<T>(exec, at, plan, {dqkv.as<T>(), dout.as<T>(), o.as<T>(), qkv.as<T>(), lse.as<float>()},
                workspace.memory.data);
  });
}

}  // namespace shard8::kernels
