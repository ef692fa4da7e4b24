// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/kokkos/norm_values.hpp"
#include "kernels/kokkos/qk_norm_heads.hpp"

namespace shard8::kernels {
namespace {

/// The norm and the rotation of all queries and keys of a token.
template <class T>
struct QkNormForward {
  static constexpr int kN = kPack<T>, kThreads = 64,
                       kHeads = 4;                    ///< heads that a thread loads at once; chosen, not measured
  using Bounds = Kokkos::LaunchBounds<kThreads, 10>;  ///< as RoPE
  using Pack = Packed<kN, 1>;
  using Lanes = typename Pack::template Lanes<T>;

  QkNormArguments<T> at;
  HeadShare by;

  void operator()(const HostTeam& team, std::int64_t token) const { one_by_one(team, token); }
  template <class AnyMember>
  KOKKOS_INLINE_FUNCTION void operator()(const AnyMember& team, std::int64_t token) const {
    if (by.share == 0)
      one_by_one(team, token);
    else
      by_shares(team, token);
  }

 private:
  /// The whole team takes one head after the other.
  template <class AnyTeam>
  KOKKOS_INLINE_FUNCTION void one_by_one(const AnyTeam& team, std::int64_t token) const {
    const float *cosine = at.cosine_of(token), *sine = at.sine_of(token);
    const std::int64_t half = at.half;
    for (std::int64_t head = 0; head < at.heads; ++head) {
      T *const x = at.head_of(token, head), *const kept = at.unnormed_of(token, head);
      const T* const weight = at.weight_of(head);
      const float r = at.rstd(row_sum<1>(team, at.dim(), false, [=](auto, std::int64_t i) {
        const auto v = static_cast<float>(x[i]);
        return v * v;
      }));
      const auto normed = [=](T v, T w) {
        const T n = static_cast<T>(static_cast<float>(v) * r);
        return static_cast<float>(static_cast<T>(static_cast<float>(w) * static_cast<float>(n)));
      };
      row_for(team, half, [=](std::int64_t i) {
        const T first = x[i], second = x[i + half];
        kept[i] = first;
        kept[i + half] = second;
        const float y1 = normed(first, weight[i]), y2 = normed(second, weight[i + half]);
        const float c = cosine[i], s = sine[i];
        x[i] = static_cast<T>(y1 * c - y2 * s);
        x[i + half] = static_cast<T>(y2 * c + y1 * s);
      });
    }
  }

  /// Shares of threads take the heads in turn, kHeads at once. All threads of a warp take part in the sums.
  template <class AnyMember>
  KOKKOS_INLINE_FUNCTION void by_shares(const AnyMember& team, std::int64_t token) const {
    const int rank = team.team_rank(), lane = rank % by.share, share = rank / by.share;
    const int shares = team.team_size() / by.share, heads = static_cast<int>(at.heads);
    const bool holds = lane < by.packs;
    const Pack w{0};
    const std::int64_t i = static_cast<std::int64_t>(holds ? lane : 0) * kN, j = i + at.half;
    const auto c = w.load(at.cosine_of(token), i), s = w.load(at.sine_of(token), i);
    for (int begin = 0; begin < heads; begin += kHeads * shares) {
      Lanes first[kHeads], second[kHeads];
      float squares[kHeads];
      SHARD8_UNROLL
      for (int u = 0; u < kHeads; ++u) {
        const int head = begin + u * shares + share;
        first[u] = second[u] = Lanes{};
        if (!holds || head >= heads) continue;
        first[u] = w.load(const_cast<const T*>(at.head_of(token, head)), i);
        second[u] = w.load(const_cast<const T*>(at.head_of(token, head)), j);
      }
      SHARD8_UNROLL
      for (int u = 0; u < kHeads; ++u) {
        squares[u] = w.sum([&](int k) { return first[u][k] * first[u][k] + second[u][k] * second[u][k]; });
        squares[u] = sum_of_share(squares[u], by.share);
      }
      SHARD8_UNROLL
      for (int u = 0; u < kHeads; ++u) {
        const int head = begin + u * shares + share;
        if (!holds || head >= heads) continue;
        T *const x = at.head_of(token, head), *const kept = at.unnormed_of(token, head);
        w.store_lanes(kept, i, first[u]);
        w.store_lanes(kept, j, second[u]);
        const float r = at.rstd(squares[u]);
        const T* const weight = at.weight_of(head);
        const Lanes y1 = norm_values<false, T>(w, first[u], w.load(weight, i), Lanes{}, 0.0f, r);
        const Lanes y2 = norm_values<false, T>(w, second[u], w.load(weight, j), Lanes{}, 0.0f, r);
        const auto rotated1 = w.each([&](int k) { return y1[k] * c[k] - y2[k] * s[k]; });
        const auto rotated2 = w.each([&](int k) { return y2[k] * c[k] + y1[k] * s[k]; });
        w.store_lanes(x, i, w.template round_results<T>(rotated1));
        w.store_lanes(x, j, w.template round_results<T>(rotated2));
      }
    }
  }
};

}  // namespace

void qk_norm_rope_forward(const Exec& exec, const tensor::Tensor& qkv, const tensor::Tensor& unnormed,
                          const tensor::Tensor& table, const QkWeights& weights, const QkHeads& heads, float eps) {
  constexpr auto kName = "qk_norm_rope_forward";
  require_qk_norm(kName, qkv, unnormed, table, weights, heads);
  dispatch_real(qkv.dtype, kName, [&]<class T>(std::type_identity<T>) {
    using Forward = QkNormForward<T>;
    const auto at = qk_norm_arguments<T>(qkv, unnormed, table, weights, heads, eps);
    for_rows<typename Forward::Bounds>(exec, "shard8::kernels::qk_norm_rope_forward", qkv.rows(),
                                       Forward{at, HeadShare::of<Forward::kN>(at)}, Forward::kThreads);
  });
}

}  // namespace shard8::kernels
