// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/error.hpp"
#include "kernels/attention_shape.hpp"
#include "kernels/kokkos/fast_math.hpp"
#include "kernels/kokkos/loops.hpp"

/// The parts that both directions of attention share. A team holds a block of `rows` queries or keys in its scratch.
/// The block is transposed, so neighbouring threads read neighbouring elements. The team reads the other side (keys or
/// queries) from memory, kStep tokens at a time.
namespace shard8::kernels {

inline constexpr int kStep = 32;
/// The level of Kokkos' scratch. On devices level 0, the fast memory. On hosts level 0 is too small for two blocks and
/// their gradients.
inline constexpr int kScratchLevel = kHostExec ? 1 : 0;

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

}  // namespace shard8::kernels
