// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/check/arguments.hpp"
#include "kernels/kokkos/attention_teams.hpp"
#include "kernels/kokkos/portable.hpp"

namespace shard8::kernels {
namespace {

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

}  // namespace shard8::kernels
