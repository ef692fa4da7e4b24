// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cstdint>

#include "kernels/attention.hpp"
#include "kernels/host/micro_gemm.hpp"
#include "kernels/kokkos/label.hpp"
#include "tensor/runtime.hpp"

/// Attention on hosts works on blocks of kBlock queries by kBlock keys. Scores are stored transposed, (keys, queries):
/// a vector holds the scores of one key for kLanes queries. So maxima and sums over keys need no sums across lanes, and
/// keys and values are read as scalars, row by row.

namespace shard8::kernels {

inline constexpr std::int64_t kBlock = 64;
static_assert(kBlock % (2 * kLanes) == 0);

/// n rounded up to whole vectors.
constexpr std::int64_t padded(std::int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

/// Extents and strides of one call, and offsets of a head's part of a token's row, all counted in elements. Throws
/// Error(failed) unless kv_heads divides heads.
struct AttentionLayout {
  AttentionShape shape;
  std::int64_t group, blocks, padded_dim, qkv_stride, out_stride;
  float scale;

  explicit AttentionLayout(const AttentionShape& s);
  std::int64_t query(std::int64_t b, std::int64_t i, std::int64_t h) const {
    return (b * shape.seq + i) * qkv_stride + h * shape.head_dim;
  }
  std::int64_t key(std::int64_t b, std::int64_t j, std::int64_t kv) const {
    return (b * shape.seq + j) * qkv_stride + (shape.heads + kv) * shape.head_dim;
  }
  std::int64_t value(std::int64_t b, std::int64_t j, std::int64_t kv) const {
    return key(b, j, kv) + shape.kv_heads * shape.head_dim;
  }
  std::int64_t out(std::int64_t b, std::int64_t i, std::int64_t h) const {
    return (b * shape.seq + i) * out_stride + h * shape.head_dim;
  }
  std::int64_t lse(std::int64_t b, std::int64_t i, std::int64_t h) const {
    return (b * shape.heads + h) * shape.seq + i;
  }
  /// Tokens of block n.
  std::int64_t tokens(std::int64_t n) const { return std::min(kBlock, shape.seq - n * kBlock); }
};

/// Cuts a worker's part of the workspace into aligned pieces. Constructed with null it only counts.
class ScratchCutter {
 public:
  explicit ScratchCutter(float* memory) : memory_(memory) {}
  float* take(std::int64_t floats) {
    float* piece = memory_ == nullptr ? nullptr : memory_ + used_;
    used_ += (floats + kAlign - 1) / kAlign * kAlign;
    return piece;
  }
  std::int64_t used() const { return used_; }

 private:
  static constexpr std::int64_t kAlign = 64;
  float* memory_;
  std::int64_t used_ = 0;
};

/// to (padded(rows), padded(dim)) = factor · from (rows, dim); the padding becomes 0.
template <class T>
void load_rows(float* to, const T* from, std::int64_t from_stride, std::int64_t rows, std::int64_t dim, float factor) {
  const std::int64_t width = padded(dim);
  for (std::int64_t i = 0; i < rows; ++i) {
    const T* in = from + i * from_stride;
    float* out = to + i * width;
#pragma omp simd
    for (std::int64_t d = 0; d < dim; ++d) out[d] = factor * static_cast<float>(in[d]);
    for (std::int64_t d = dim; d < width; ++d) out[d] = 0;
  }
  std::fill(to + rows * width, to + padded(rows) * width, 0.0f);
}

/// to (rows, dim) = factor · from (rows, padded(dim)).
template <class T>
void store_rows(T* to, std::int64_t to_stride, const float* from, std::int64_t rows, std::int64_t dim, float factor) {
  for (std::int64_t i = 0; i < rows; ++i) {
    const float* in = from + i * padded(dim);
    T* out = to + i * to_stride;
#pragma omp simd
    for (std::int64_t d = 0; d < dim; ++d) out[d] = static_cast<T>(factor * in[d]);
  }
}

/// Keys and values of one sequence b and kv head, as contiguous fp32 rows. `whole`: there is memory for all blocks, and
/// the caller loads each block when it first needs it. Otherwise there is memory for one block at a time.
template <class T>
class KeyBlocks {
 public:
  KeyBlocks(const AttentionLayout& at, const T* qkv, std::int64_t b, std::int64_t kv, float* keys, float* values,
            bool whole)
      : at_(at), qkv_(qkv), b_(b), kv_(kv), keys_(keys), values_(values), whole_(whole) {}

  static std::int64_t floats(const AttentionLayout& at, bool whole) {
    return (whole ? at.blocks : 1) * kBlock * at.padded_dim;
  }
  void load(std::int64_t j) const {
    load_rows(keys_ + slot(j), qkv_ + at_.key(b_, j * kBlock, kv_), at_.qkv_stride, at_.tokens(j), dim(), 1.0f);
    load_rows(values_ + slot(j), qkv_ + at_.value(b_, j * kBlock, kv_), at_.qkv_stride, at_.tokens(j), dim(), 1.0f);
  }
  Scalars keys(std::int64_t j) const { return {keys_ + slot(j), at_.padded_dim, 1}; }
  Scalars values(std::int64_t j) const { return {values_ + slot(j), at_.padded_dim, 1}; }

 private:
  std::int64_t dim() const { return at_.shape.head_dim; }
  std::int64_t slot(std::int64_t j) const { return whole_ ? j * kBlock * at_.padded_dim : 0; }

  const AttentionLayout& at_;
  const T* qkv_;
  std::int64_t b_, kv_;
  float *keys_, *values_;
  bool whole_;
};

/// c (keys, lanes) = a (keys, dim) · b (dim, lanes), for lanes of queries; rows of c and b are kBlock apart. On the
/// diagonal block, elements of queries that do not see the key become `hidden`.
void block_products(float* c, const Scalars& a, const float* b, std::int64_t keys, std::int64_t lanes, std::int64_t dim,
                    bool diagonal, float hidden);

/// c (dim, lanes) [+]= a (keys, dim)ᵀ · p (keys, lanes); rows of c and p are kBlock apart. p must be 0 where a query
/// does not see a key.
void add_over_keys(float* c, const Scalars& a, const float* p, std::int64_t keys, std::int64_t lanes, std::int64_t dim,
                   bool diagonal, bool accumulate);

/// c (keys, width) [+]= p (keys, lanes) · b (lanes, width). p must be 0 where a query does not see a key.
void add_over_queries(float* c, const float* p, const float* b, std::int64_t keys, std::int64_t lanes,
                      std::int64_t width, bool diagonal, bool accumulate);

/// How a pass is cut into tasks. Both ways compute the same block products, and add them in the same order to every
/// sum. Both ways therefore give the same bits.
struct AttentionPlan {
  std::int64_t workers = 1;        ///< how many threads take tasks; each has its own scratch
  bool whole_heads = true;         ///< a task is a (sequence, kv head); otherwise a block of queries or of keys
  std::int64_t worker_floats = 0;  ///< floats of scratch of one worker
};

/// The plan of a pass on `threads` threads whose workers use Scratch. `whole` and `by_blocks` are the work of the two
/// ways, in any unit. Whole heads need less work, but there may be too few of them for the threads. Whole heads are
/// chosen unless their last round leaves threads idle for so long that cutting by blocks is faster.
template <class Scratch>
AttentionPlan plan_pass(const AttentionShape& shape, std::int64_t threads, std::int64_t whole, std::int64_t by_blocks) {
  const AttentionLayout at(shape);
  const auto heads = shape.batch * shape.kv_heads, blocks = shape.batch * shape.heads * at.blocks;
  const auto rounds = (heads + threads - 1) / threads;
  const bool whole_heads = whole * rounds * threads <= by_blocks * heads || at.blocks == 1;
  ScratchCutter cut(nullptr);
  const Scratch counted(cut, at, whole_heads);
  return {.workers = std::min<std::int64_t>(threads, whole_heads ? heads : blocks),
          .whole_heads = whole_heads,
          .worker_floats = cut.used()};
}
AttentionPlan plan_forward(const AttentionShape& shape, int threads);
AttentionPlan plan_backward(const AttentionShape& shape, int threads);

/// Bytes of the task counter, which is stored before the workers' scratch.
inline constexpr std::int64_t kCounterBytes = 256;
/// Bytes of workspace that a plan needs.
std::size_t plan_bytes(const AttentionPlan& plan);

/// Calls f(scratch, task) for every task in [0, tasks). A worker that has finished a task takes the next one.
template <class F>
void run_tasks(const tensor::Exec& exec, const char* label, const AttentionPlan& plan, std::byte* workspace,
               std::int64_t tasks, const F& f) {
  auto* counter = reinterpret_cast<std::int64_t*>(workspace);
  auto* scratch = reinterpret_cast<float*>(workspace + kCounterBytes);
  *counter = 0;
  using Workers = Kokkos::RangePolicy<tensor::Exec, Kokkos::IndexType<std::int64_t>>;
  Kokkos::parallel_for(label_of(label), Workers(exec, 0, plan.workers), [=](std::int64_t worker) {
    for (;;) {
      const auto task = Kokkos::atomic_fetch_add(counter, std::int64_t{1});
      if (task >= tasks) return;
      f(scratch + worker * plan.worker_floats, task);
    }
  });
}

}  // namespace shard8::kernels
