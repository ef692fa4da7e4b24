// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/check/arguments.hpp"
#include "kernels/kokkos/attention_teams.hpp"
#include "kernels/kokkos/portable.hpp"

namespace shard8::kernels {
namespace {

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
