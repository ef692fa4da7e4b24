// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/kokkos/norm_values.hpp"

#include "kernels/elementwise.hpp"
#include "kernels/kokkos/row_sums.hpp"

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

namespace {

/// The backward of all queries and keys of a chunk of tokens, by a team that takes one head after the other. With
/// g the gradient of the norm's result, n = x·rstd and w the weight: dx = rstd·(w·g − n·mean(w·g·n)), and g·n is added
/// to the gradient of the weight.
template <class T>
struct QkNormBackward {
  QkNormArguments<T> at;
  float* partial;  ///< (2, chunks, dim): partial sums of the gradients of the weights of queries, then of keys
  RowChunks chunks;

  template <class AnyTeam>
  KOKKOS_INLINE_FUNCTION void operator()(const AnyTeam& team, std::int64_t chunk) const {
    const std::int64_t dim = at.dim();
    float* const dq = partial + chunk * dim;
    float* const dk = dq + chunks.count() * dim;
    row_for(team, dim, [=](std::int64_t i) {
      dq[i] = 0;
      dk[i] = 0;
    });
    for (std::int64_t token = chunks.first(chunk); token < chunks.last(chunk); ++token)
      for (std::int64_t head = 0; head < at.heads; ++head) {
        rotate_back(team, token, head);
        row_barrier(team);
        norm_backward(team, token, head, head < at.queries ? dq : dk);
      }
  }

 private:
  template <class AnyTeam>
  KOKKOS_INLINE_FUNCTION void rotate_back(const AnyTeam& team, std::int64_t token, std::int64_t head) const {
    const float *cosine = at.cosine_of(token), *sine = at.sine_of(token);
    T *const first = at.head_of(token, head), *const second = first + at.half;
    row_for(team, at.half, [=](std::int64_t i) {
      const auto d1 = static_cast<float>(first[i]), d2 = static_cast<float>(second[i]);
      const float c = cosine[i], s = -1.0f * sine[i];
      first[i] = static_cast<T>(d1 * c - d2 * s);
      second[i] = static_cast<T>(d2 * c + d1 * s);
    });
  }
  template <class AnyTeam>
  KOKKOS_INLINE_FUNCTION void norm_backward(const AnyTeam& team, std::int64_t token, std::int64_t head,
                                            float* dw) const {
    T* const d = at.head_of(token, head);
    const T *const x = at.unnormed_of(token, head), *const weight = at.weight_of(head);
    const float r = at.rstd(row_sum<1>(team, at.dim(), false, [=](auto, std::int64_t i) {
      const auto v = static_cast<float>(x[i]);
      return v * v;
    }));
    const float sum = row_sum<1>(team, at.dim(), false, [=](auto, std::int64_t i) {
      return static_cast<float>(weight[i]) * static_cast<float>(d[i]) * static_cast<float>(x[i]);
    });
    const float mean = sum * r / static_cast<float>(at.dim());
    row_for(team, at.dim(), [=](std::int64_t i) {
      const float n = static_cast<float>(x[i]) * r;
      const auto g = static_cast<float>(d[i]);
      dw[i] += g * n;
      d[i] = static_cast<T>(r * (static_cast<float>(weight[i]) * g - n * mean));
    });
  }
};

/// The backward of norm and rotation on a device where a share of a warp's threads holds a head. A team takes the
/// queries or the keys of a chunk of tokens; its shares take the heads in turn. A thread has the same columns in all of
/// its heads, and keeps the sums of their gradients of the weight in registers.
template <class T>
struct QkNormBackwardShares {
  static constexpr int kN = kPack<T>, kThreads = 256, kWarps = kThreads / 32,
                       kItems = 2;                   ///< heads that a thread loads at once; chosen, not measured
  using Bounds = Kokkos::LaunchBounds<kThreads, 2>;  ///< 128 registers a thread
  using Pack = Packed<kN, 1>;
  using Lanes = typename Pack::template Lanes<T>;
  struct Scratch {
    float warp[kWarps][2 * 32 * kN];
  };
  /// What a thread holds of a head: the packs of the first half and of the second half.
  struct Item {
    Lanes d1, d2, x1, x2;
    typename Pack::template Lanes<float> c, s;
    T* to = nullptr;  ///< where the head's gradient lies; null: no head
  };

  QkNormArguments<T> at;
  float* partial;  ///< as in QkNormBackward
  RowChunks chunks;
  HeadShare by;

  template <class AnyMember>
  KOKKOS_INLINE_FUNCTION void operator()(const AnyMember& team, std::int64_t index, Scratch& scratch) const {
    const std::int64_t chunk = index / 2, begin = chunks.first(chunk);
    const bool keys = index % 2 != 0;
    const int rank = team.team_rank(), lane = rank % by.share, share = rank / by.share;
    const int shares = team.team_size() / by.share;
    const bool holds = lane < by.packs;
    const std::int64_t first_head = keys ? at.queries : 0, heads = keys ? at.heads - at.queries : at.queries;
    const std::int64_t items = (chunks.last(chunk) - begin) * heads;
    const Pack w{0};
    const std::int64_t i = static_cast<std::int64_t>(holds ? lane : 0) * kN, j = i + at.half;
    const T* const weight = keys ? at.k_weight : at.q_weight;
    const Lanes w1 = w.load(weight, i), w2 = w.load(weight, j);
    float dw[2 * kN] = {};
    for (std::int64_t next = 0; next < items; next += static_cast<std::int64_t>(kItems) * shares) {
      Item of[kItems];
      SHARD8_UNROLL
      for (int u = 0; u < kItems; ++u) {
        const std::int64_t item = next + static_cast<std::int64_t>(u) * shares + share;
        of[u] = Item{};
        if (holds && item < items) of[u] = load(w, begin + item / heads, first_head + item % heads, i, j);
      }
      SHARD8_UNROLL
      for (int u = 0; u < kItems; ++u) backward(w, of[u], w1, w2, i, j, dw);
    }
    SHARD8_UNROLL
    for (int k = 0; k < 2 * kN; ++k) dw[k] = sum_over_shares(dw[k], by.share);
    if (rank % 32 < by.packs) {
      SHARD8_UNROLL
      for (int k = 0; k < kN; ++k) {
        scratch.warp[rank / 32][i + k] = dw[k];
        scratch.warp[rank / 32][j + k] = dw[kN + k];
      }
    }
    row_barrier(team);
    float* const out = partial + ((keys ? chunks.count() : 0) + chunk) * at.dim();
    row_for(team, at.dim(), [&](std::int64_t column) {
      float total = 0;
      SHARD8_UNROLL
      for (int warp = 0; warp < kWarps; ++warp) total += scratch.warp[warp][column];
      out[column] = total;
    });
  }

 private:
  KOKKOS_FORCEINLINE_FUNCTION Item load(const Pack& w, std::int64_t token, std::int64_t head, std::int64_t i,
                                        std::int64_t j) const {
    Item of;
    of.to = at.head_of(token, head);
    const T *const d = of.to, *const x = at.unnormed_of(token, head);
    of.d1 = w.load(d, i);
    of.d2 = w.load(d, j);
    of.x1 = w.load(x, i);
    of.x2 = w.load(x, j);
    of.c = w.load(at.cosine_of(token), i);
    of.s = w.load(at.sine_of(token), i);
    return of;
  }
  /// All threads of a warp take part in the sums, those without a head with zeros.
  KOKKOS_FORCEINLINE_FUNCTION void backward(const Pack& w, const Item& of, const Lanes& w1, const Lanes& w2,
                                            std::int64_t i, std::int64_t j, float (&dw)[2 * kN]) const {
    const Lanes g1 =
        w.template round_results<T>(w.each([&](int k) { return of.d1[k] * of.c[k] + of.d2[k] * of.s[k]; }));
    const Lanes g2 =
        w.template round_results<T>(w.each([&](int k) { return of.d2[k] * of.c[k] - of.d1[k] * of.s[k]; }));
    const float squares =
        sum_of_share(w.sum([&](int k) { return of.x1[k] * of.x1[k] + of.x2[k] * of.x2[k]; }), by.share);
    const float along =
        sum_of_share(w.sum([&](int k) { return w1[k] * g1[k] * of.x1[k] + w2[k] * g2[k] * of.x2[k]; }), by.share);
    if (of.to == nullptr) return;
    const float r = at.rstd(squares), mean = along * r / static_cast<float>(at.dim());
    Values<kN> dx1, dx2;
    SHARD8_UNROLL
    for (int k = 0; k < kN; ++k) {
      const float n1 = of.x1[k] * r, n2 = of.x2[k] * r;
      dw[k] += g1[k] * n1;
      dw[kN + k] += g2[k] * n2;
      dx1.at[k] = r * (w1[k] * g1[k] - n1 * mean);
      dx2.at[k] = r * (w2[k] * g2[k] - n2 * mean);
    }
    w.store_lanes(of.to, i, w.template round_results<T>(dx1));
    w.store_lanes(of.to, j, w.template round_results<T>(dx2));
  }
};

template <class T>
void qk_norm_backward(const Exec& exec, const QkNormArguments<T>& at, float* partial, const RowChunks& chunks) {
  constexpr auto kLabel = "shard8::kernels::qk_norm_rope_backward";
  if constexpr (!kHostExec) {
    using Shares = QkNormBackwardShares<T>;
    const HeadShare by = HeadShare::of<Shares::kN>(at);
    if (by.share > 0)
      return for_rows_with<typename Shares::Scratch, typename Shares::Bounds>(
          exec, kLabel, 2 * chunks.count(), Shares{at, partial, chunks, by}, Shares::kThreads);
  }
  for_rows(exec, kLabel, chunks.count(), QkNormBackward<T>{at, partial, chunks});
}

}  // namespace

void qk_norm_rope_backward(const Exec& exec, const tensor::Tensor& dqkv, const QkWeights& dweights,
                           const tensor::Tensor& unnormed, const tensor::Tensor& table, const QkWeights& weights,
                           const QkHeads& heads, float eps, const tensor::Tensor& workspace) {
  constexpr auto kName = "qk_norm_rope_backward";
  require_qk_norm(kName, dqkv, unnormed, table, weights, heads);
  const std::int64_t dim = 2 * table.shape[2];
  require_count(kName, "the gradient of the weight of queries", dweights.q, dim);
  require_count(kName, "the gradient of the weight of keys", dweights.k, dim);
  require_workspace(kName, workspace, norm_workspace_bytes(dqkv.rows(), dim));
  const auto chunks = RowChunks::of(dqkv.rows());
  auto* partial = reinterpret_cast<float*>(workspace.as<std::uint8_t>());
  dispatch_real(dqkv.dtype, kName, [&]<class T>(std::type_identity<T>) {
    qk_norm_backward(exec, qk_norm_arguments<T>(dqkv, unnormed, table, weights, heads, eps), partial, chunks);
  });
  add_partial_sums(exec, "shard8::kernels::qk_norm_rope_backward_weight", dweights.q.as<float>(), partial,
                   chunks.count(), dim, dweights.k.as<float>());
}

}  // namespace shard8::kernels
