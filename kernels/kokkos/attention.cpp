// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/error.hpp"
#include "kernels/attention.hpp"
#include "kernels/check/arguments.hpp"
#include "kernels/kokkos/fast_math.hpp"
#include "kernels/kokkos/loops.hpp"
#include "kernels/kokkos/portable.hpp"

/// The parts that both directions of attention share. A team holds a block of `rows` queries or keys in its scratch.
/// The block is transposed, so neighbouring threads read neighbouring elements. The team reads the other side (keys or
/// queries) from memory, kStep tokens at a time.
namespace shard8::kernels {
namespace {

constexpr int kStep = 32;
/// The level of Kokkos' scratch: on devices level 0, the fast memory. On hosts level 0 is too small for two blocks and
/// their gradients.
constexpr int kScratchLevel = kHostExec ? 1 : 0;

/// Extents of one call, and offsets of a head's part in a token's row.
struct AttentionTeams {
  using Policy = Kokkos::TeamPolicy<Exec>;
  using Member = Policy::member_type;

  int batch, seq, heads, kv_heads, dim, group, rows, blocks;
  std::int64_t qkv_stride, out_stride;
  float scale;

  AttentionTeams(const char* kernel, const AttentionShape& s)
      : batch(static_cast<int>(s.batch)),
        seq(static_cast<int>(s.seq)),
        heads(static_cast<int>(s.heads)),
        kv_heads(static_cast<int>(s.kv_heads)),
        dim(static_cast<int>(s.head_dim)),
        group(s.kv_heads > 0 ? heads / kv_heads : 0),
        rows(dim <= 128 ? 16 : 8),
        blocks((seq + rows - 1) / rows),
        qkv_stride(s.qkv_columns()),
        out_stride(s.heads * s.head_dim),
        scale(static_cast<float>(1.0 / std::sqrt(static_cast<double>(s.head_dim)))) {
    SHARD8_REQUIRE(kv_heads > 0 && heads % kv_heads == 0, "{}: {} heads on {} kv heads; must divide", kernel, heads,
                   kv_heads);
    SHARD8_REQUIRE(dim > 0 && dim <= 256, "{}: head_dim {}; allowed are 1 to 256", kernel, dim);
  }

  /// The policy of a kernel whose teams have `floats` floats of scratch each.
  Policy policy(const Exec& exec, int teams, int floats) const {
    constexpr int kThreads = 128;
    const auto bytes = Kokkos::PerTeam(floats * static_cast<int>(sizeof(float)));
    return (kHostExec ? Policy(exec, teams, Kokkos::AUTO) : Policy(exec, teams, kThreads))
        .set_scratch_size(kScratchLevel, bytes);
  }
  static KOKKOS_INLINE_FUNCTION float* scratch(const Member& team, int floats) {
    const int level = kScratchLevel;  // a variable, because team_scratch takes a reference
    return static_cast<float*>(team.team_scratch(level).get_shmem(floats * static_cast<int>(sizeof(float))));
  }

  KOKKOS_INLINE_FUNCTION std::int64_t token(int b, int i) const { return static_cast<std::int64_t>(b) * seq + i; }
  KOKKOS_INLINE_FUNCTION std::int64_t query(int b, int i, int h) const { return token(b, i) * qkv_stride + h * dim; }
  KOKKOS_INLINE_FUNCTION std::int64_t key(int b, int i, int kv) const {
    return token(b, i) * qkv_stride + (heads + kv) * dim;
  }
  KOKKOS_INLINE_FUNCTION std::int64_t value(int b, int i, int kv) const { return key(b, i, kv) + kv_heads * dim; }
  KOKKOS_INLINE_FUNCTION std::int64_t out(int b, int i, int h) const { return token(b, i) * out_stride + h * dim; }
  KOKKOS_INLINE_FUNCTION std::int64_t lse(int b, int i, int h) const {
    return (static_cast<std::int64_t>(b) * heads + h) * seq + i;
  }
};

/// Calls f(i) for i in [0, n) by the team's threads, then a barrier.
template <class Member, class F>
KOKKOS_INLINE_FUNCTION void by_team(const Member& team, int n, const F& f) {
  Kokkos::parallel_for(Kokkos::TeamVectorRange(team, n), f);
  team.team_barrier();
}

/// to (dim, rows) = factor · from (count, dim)ᵀ, tokens `stride` elements apart.
template <class Member, class T>
KOKKOS_INLINE_FUNCTION void load_transposed(const Member& team, float* to, const T* from, std::int64_t stride, int rows,
                                            int count, int dim, float factor) {
  by_team(team, count * dim, [=](int n) {
    const int i = n / dim, d = n % dim;
    to[d * rows + i] = factor * static_cast<float>(from[i * stride + d]);
  });
}

/// Σ_d column[d · rows] · row[d].
template <class T>
KOKKOS_INLINE_FUNCTION float dot(const float* column, int rows, const T* row, int dim) {
  float sum = 0;
  for (int d = 0; d < dim; ++d) sum = multiply_add(column[d * rows], static_cast<float>(row[d]), sum);
  return sum;
}

/// start + Σ_j weights[j · stride] · from[j · from_stride].
template <class T>
KOKKOS_INLINE_FUNCTION float weighted(float start, const float* weights, int stride, const T* from,
                                      std::int64_t from_stride, int n) {
  for (int j = 0; j < n; ++j) {
    start = multiply_add(weights[j * stride], static_cast<float>(from[j * from_stride]), start);
  }
  return start;
}

/// The output of a block of queries of one head. The softmax over the keys seen so far is rescaled whenever the maximum
/// grows.
template <class T>
struct QueryBlock {
  AttentionTeams at;
  T* o;
  float* lse;
  const T* qkv;

  KOKKOS_INLINE_FUNCTION int floats() const { return at.rows * (2 * at.dim + kStep + 3); }

  KOKKOS_INLINE_FUNCTION void operator()(const AttentionTeams::Member& team) const {
    constexpr float kHidden = -__builtin_huge_valf();
    // Later blocks see more keys: long blocks start first.
    const int all_heads = at.batch * at.heads, index = team.league_rank();
    const int b = index % all_heads / at.heads, h = index % at.heads;
    const int first = (at.blocks - 1 - index / all_heads) * at.rows;
    const int rows = at.rows, dim = at.dim, count = at.seq - first < rows ? at.seq - first : rows;
    float* const queries = AttentionTeams::scratch(team, floats());  // (dim, rows)
    float* const outputs = queries + rows * dim;                     // (rows, dim)
    float* const p = outputs + rows * dim;                           // (kStep, rows)
    float *const largest = p + kStep * rows, *const sum = largest + rows, *const factor = sum + rows;
    const T* const keys = qkv + at.key(b, 0, h / at.group);
    const T* const values = qkv + at.value(b, 0, h / at.group);
    const std::int64_t stride = at.qkv_stride;

    load_transposed(team, queries, qkv + at.query(b, first, h), stride, rows, count, dim, at.scale);
    by_team(team, count, [=](int i) {
      largest[i] = kHidden;
      sum[i] = 0;
    });
    by_team(team, count * dim, [=](int n) { outputs[n] = 0; });
    for (int start = 0; start < first + count; start += kStep) {
      const int n = first + count - start < kStep ? first + count - start : kStep;
      by_team(team, n * rows, [=](int pair) {
        const int i = pair % rows, j = pair / rows;
        if (i >= count) return;
        p[pair] = start + j <= first + i ? dot(queries + i, rows, keys + (start + j) * stride, dim) : kHidden;
      });
      by_team(team, count, [=](int i) {
        float top = largest[i], total = 0;
        for (int j = 0; j < n; ++j) top = p[j * rows + i] > top ? p[j * rows + i] : top;
        for (int j = 0; j < n; ++j) total += (p[j * rows + i] = Kokkos::exp(p[j * rows + i] - top));
        factor[i] = Kokkos::exp(largest[i] - top);
        largest[i] = top;
        sum[i] = sum[i] * factor[i] + total;
      });
      by_team(team, count * dim, [=](int n_out) {
        const int i = n_out / dim, d = n_out % dim;
        outputs[n_out] = weighted(outputs[n_out] * factor[i], p + i, rows, values + start * stride + d, stride, n);
      });
    }
    by_team(team, count * dim, [=, this](int n) {
      o[at.out(b, first + n / dim, h) + n % dim] = static_cast<T>(outputs[n] / sum[n / dim]);
    });
    by_team(team, count, [=, this](int i) { lse[at.lse(b, first + i, h)] = largest[i] + Kokkos::log(sum[i]); });
  }
};

template <class T>
struct Arrays {
  T* dqkv;
  const T *dout, *o, *qkv;
  const float* lse;
};

/// Σ_d dout·o of a query.
template <class T>
KOKKOS_INLINE_FUNCTION float delta_of(const T* dout, const T* o, int dim) {
  float sum = 0;
  for (int d = 0; d < dim; ++d) sum = multiply_add(static_cast<float>(dout[d]), static_cast<float>(o[d]), sum);
  return sum;
}

/// dq of a block of queries of one head.
template <class T>
struct QueryGradient {
  AttentionTeams at;
  Arrays<T> a;

  KOKKOS_INLINE_FUNCTION int floats() const { return at.rows * (3 * at.dim + kStep + 2); }

  KOKKOS_INLINE_FUNCTION void operator()(const AttentionTeams::Member& team) const {
    const int all_heads = at.batch * at.heads, index = team.league_rank();
    const int b = index % all_heads / at.heads, h = index % at.heads;
    const int first = (at.blocks - 1 - index / all_heads) * at.rows;
    const int rows = at.rows, dim = at.dim, count = at.seq - first < rows ? at.seq - first : rows;
    float* const queries = AttentionTeams::scratch(team, floats());  // (dim, rows)
    float* const douts = queries + rows * dim;                       // (dim, rows)
    float* const gradients = douts + rows * dim;                     // (rows, dim)
    float* const ds = gradients + rows * dim;                        // (kStep, rows)
    float *const lse = ds + kStep * rows, *const delta = lse + rows;
    const T* const keys = a.qkv + at.key(b, 0, h / at.group);
    const T* const values = a.qkv + at.value(b, 0, h / at.group);
    const T *const dout = a.dout + at.out(b, first, h), *const o = a.o + at.out(b, first, h);
    const std::int64_t stride = at.qkv_stride;

    load_transposed(team, queries, a.qkv + at.query(b, first, h), stride, rows, count, dim, at.scale);
    load_transposed(team, douts, dout, at.out_stride, rows, count, dim, 1.0f);
    by_team(team, count, [=, this](int i) {
      lse[i] = a.lse[at.lse(b, first + i, h)];
      delta[i] = delta_of(dout + i * at.out_stride, o + i * at.out_stride, dim);
    });
    by_team(team, count * dim, [=](int n) { gradients[n] = 0; });
    for (int start = 0; start < first + count; start += kStep) {
      const int n = first + count - start < kStep ? first + count - start : kStep;
      by_team(team, n * rows, [=](int pair) {
        const int i = pair % rows, j = pair / rows;
        if (i >= count) return;
        ds[pair] = 0;
        if (start + j > first + i) return;
        const float p = Kokkos::exp(dot(queries + i, rows, keys + (start + j) * stride, dim) - lse[i]);
        ds[pair] = p * (dot(douts + i, rows, values + (start + j) * stride, dim) - delta[i]);
      });
      by_team(team, count * dim, [=](int out) {
        const int i = out / dim, d = out % dim;
        gradients[out] = weighted(gradients[out], ds + i, rows, keys + start * stride + d, stride, n);
      });
    }
    by_team(team, count * dim, [=, this](int n) {
      a.dqkv[at.query(b, first + n / dim, h) + n % dim] = static_cast<T>(at.scale * gradients[n]);
    });
  }
};

/// dk and dv of a block of keys of one kv head: sums over all query heads that share the kv head, and over all queries
/// that see the keys.
template <class T>
struct KeyGradient {
  AttentionTeams at;
  Arrays<T> a;

  KOKKOS_INLINE_FUNCTION int floats() const { return at.rows * (4 * at.dim + 2 * kStep) + 2 * kStep; }

  KOKKOS_INLINE_FUNCTION void operator()(const AttentionTeams::Member& team) const {
    const int all_heads = at.batch * at.kv_heads, index = team.league_rank();
    const int b = index % all_heads / at.kv_heads, kv = index % at.kv_heads;
    const int first = index / all_heads * at.rows;
    const int rows = at.rows, dim = at.dim, count = at.seq - first < rows ? at.seq - first : rows;
    float* const keys = AttentionTeams::scratch(team, floats());          // (dim, rows)
    float* const values = keys + rows * dim;                              // (dim, rows)
    float* const dkeys = values + rows * dim;                             // (rows, dim)
    float* const dvalues = dkeys + rows * dim;                            // (rows, dim)
    float *const p = dvalues + rows * dim, *const ds = p + kStep * rows;  // (kStep, rows)
    float *const lse = ds + kStep * rows, *const delta = lse + kStep;
    const std::int64_t stride = at.qkv_stride, out_stride = at.out_stride;

    load_transposed(team, keys, a.qkv + at.key(b, first, kv), stride, rows, count, dim, at.scale);
    load_transposed(team, values, a.qkv + at.value(b, first, kv), stride, rows, count, dim, 1.0f);
    by_team(team, count * dim, [=](int n) { dkeys[n] = dvalues[n] = 0; });
    for (int h = kv * at.group; h < (kv + 1) * at.group; ++h) {
      for (int start = first; start < at.seq; start += kStep) {
        const int n = at.seq - start < kStep ? at.seq - start : kStep;
        const T* const queries = a.qkv + at.query(b, start, h);
        const T *const dout = a.dout + at.out(b, start, h), *const o = a.o + at.out(b, start, h);
        by_team(team, n, [=, this](int i) {
          lse[i] = a.lse[at.lse(b, start + i, h)];
          delta[i] = delta_of(dout + i * out_stride, o + i * out_stride, dim);
        });
        by_team(team, n * rows, [=](int pair) {
          const int j = pair % rows, i = pair / rows;
          if (j >= count) return;
          p[pair] = ds[pair] = 0;
          if (first + j > start + i) return;
          p[pair] = Kokkos::exp(dot(keys + j, rows, queries + i * stride, dim) - lse[i]);
          ds[pair] = p[pair] * (dot(values + j, rows, dout + i * out_stride, dim) - delta[i]);
        });
        by_team(team, count * dim, [=](int out) {
          const int j = out / dim, d = out % dim;
          dkeys[out] = weighted(dkeys[out], ds + j, rows, queries + d, stride, n);
          dvalues[out] = weighted(dvalues[out], p + j, rows, dout + d, out_stride, n);
        });
      }
    }
    by_team(team, count * dim, [=, this](int n) {
      const int j = n / dim, d = n % dim;
      a.dqkv[at.key(b, first + j, kv) + d] = static_cast<T>(at.scale * dkeys[n]);
      a.dqkv[at.value(b, first + j, kv) + d] = static_cast<T>(dvalues[n]);
    });
  }
};

}  // namespace

void portable_attention_forward(const tensor::Exec& exec, const tensor::Tensor& o, const tensor::Tensor& lse,
                                const tensor::Tensor& qkv, const AttentionShape& shape) {
  constexpr auto kName = "portable_attention_forward";
  const AttentionTeams at(kName, shape);
  require_count(kName, "o", o, shape.tokens() * at.out_stride);
  require_count(kName, "lse", lse, shape.tokens() * shape.heads);
  require_count(kName, "qkv", qkv, shape.tokens() * at.qkv_stride);
  dispatch_real(qkv.dtype, kName, [&]<class T>(std::type_identity<T>) {
    const QueryBlock<T> block{at, o.as<T>(), lse.as<float>(), qkv.as<T>()};
    Kokkos::parallel_for(label_of("shard8::kernels::portable_attention_forward"),
                         at.policy(exec, at.batch * at.heads * at.blocks, block.floats()), block);
  });
}

void portable_attention_backward(const tensor::Exec& exec, const tensor::Tensor& dqkv, const tensor::Tensor& dout,
                                 const tensor::Tensor& o, const tensor::Tensor& qkv, const tensor::Tensor& lse,
                                 const AttentionShape& shape) {
  constexpr auto kName = "portable_attention_backward";
  const AttentionTeams at(kName, shape);
  require_count(kName, "dqkv", dqkv, shape.tokens() * at.qkv_stride);
  require_count(kName, "qkv", qkv, shape.tokens() * at.qkv_stride);
  require_count(kName, "dout", dout, shape.tokens() * at.out_stride);
  require_count(kName, "o", o, shape.tokens() * at.out_stride);
  require_count(kName, "lse", lse, shape.tokens() * shape.heads);
  dispatch_real(qkv.dtype, kName, [&]<class T>(std::type_identity<T>) {
    const Arrays<T> arrays{dqkv.as<T>(), dout.as<T>(), o.as<T>(), qkv.as<T>(), lse.as<float>()};
    const QueryGradient<T> queries{at, arrays};
    Kokkos::parallel_for(label_of("shard8::kernels::portable_attention_backward_q"),
                         at.policy(exec, at.batch * at.heads * at.blocks, queries.floats()), queries);
    const KeyGradient<T> keys{at, arrays};
    Kokkos::parallel_for(label_of("shard8::kernels::portable_attention_backward_kv"),
                         at.policy(exec, at.batch * at.kv_heads * at.blocks, keys.floats()), keys);
  });
}

}  // namespace shard8::kernels
