// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/attention.hpp"
#include "kernels/check/arguments.hpp"
#include "kernels/kokkos/cast.hpp"
#include "kernels/kokkos/fast_math.hpp"
#include "kernels/kokkos/lanes.hpp"
#include "kernels/kokkos/loops.hpp"

/// The formulas of norms for some elements of a row of x, in the width w.
namespace shard8::kernels {

/// weight · T(x·rstd). Packs of bf16 give lanes, which are rounded; other types give Values, which are not.
template <class T, class W, class Lanes>
KOKKOS_FORCEINLINE_FUNCTION auto rmsnorm_values(const W& w, const Lanes& x, const Lanes& weight, float rstd) {
  const auto normed = w.template round_results<T>(w.each([&](int j) { return x[j] * rstd; }));
  if constexpr (kOfBf16<Lanes>) {
    return w.multiply(weight, normed);
  } else {
    return w.each([&](int j) { return weight[j] * normed[j]; });
  }
}

/// weight·(x − mean)·rstd + bias, as Values, which are not rounded.
template <class W, class Lanes>
KOKKOS_FORCEINLINE_FUNCTION auto layernorm_values(const W& w, const Lanes& x, const Lanes& weight, const Lanes& bias,
                                                  float mean, float rstd) {
  return w.each([&](int j) { return multiply_add((x[j] - mean) * rstd, weight[j], bias[j]); });
}

/// The result of LayerNorm (kCentred) or RMSNorm as lanes of T, rounded. RMSNorm reads neither bias nor mean.
template <bool kCentred, class T, class W, class Lanes>
KOKKOS_FORCEINLINE_FUNCTION Lanes norm_values(const W& w, const Lanes& x, const Lanes& weight, const Lanes& bias,
                                              float mean, float rstd) {
  if constexpr (kCentred) {
    return w.template round_results<T>(layernorm_values(w, x, weight, bias, mean, rstd));
  } else if constexpr (kOfBf16<Lanes>) {
    return rmsnorm_values<T>(w, x, weight, rstd);
  } else {
    return w.template round_results<T>(rmsnorm_values<T>(w, x, weight, rstd));
  }
}

}  // namespace shard8::kernels

/// What forward and backward of the norm of queries and keys have in common.
namespace shard8::kernels {

/// The tensors of one call, and its sizes.
template <class T>
struct QkNormArguments {
  T* qkv;       ///< (T, width); in backward its gradient
  T* unnormed;  ///< (T, heads · 2 · half)
  const float* table;
  const T *q_weight, *k_weight;
  std::int64_t tokens, width, seq, half, queries, heads;
  float eps;

  KOKKOS_INLINE_FUNCTION std::int64_t dim() const { return 2 * half; }
  KOKKOS_INLINE_FUNCTION T* head_of(std::int64_t token, std::int64_t head) const {
    return qkv + token * width + head * dim();
  }
  KOKKOS_INLINE_FUNCTION T* unnormed_of(std::int64_t token, std::int64_t head) const {
    return unnormed + (token * heads + head) * dim();
  }
  KOKKOS_INLINE_FUNCTION const T* weight_of(std::int64_t head) const { return head < queries ? q_weight : k_weight; }
  KOKKOS_INLINE_FUNCTION const float* cosine_of(std::int64_t token) const { return table + token % seq * half; }
  KOKKOS_INLINE_FUNCTION const float* sine_of(std::int64_t token) const { return cosine_of(token) + seq * half; }
  KOKKOS_INLINE_FUNCTION float rstd(float sum_of_squares) const {
    return 1.0f / Kokkos::sqrt(sum_of_squares / static_cast<float>(dim()) + eps);
  }
};

/// How the threads of a warp share heads on a device. `share` neighbouring threads, a power of two, have one head; a
/// thread holds a pack of the head's first half and the pack of the second half that is rotated with it. The threads
/// behind the first `packs` of a share hold nothing.
struct HeadShare {
  int packs = 0, share = 0;  ///< share 0: a head does not fit, and the whole team takes one head after the other

  template <int N, class T>
  static HeadShare of(const QkNormArguments<T>& at) {
    const bool fits = at.half % N == 0 && at.half / N <= 32 &&
                      packs_fit<N>(at.width, at.qkv, at.unnormed, at.q_weight, at.k_weight) &&
                      packs_fit<N>(at.half, at.table);
    if (!fits) return {};
    HeadShare s{static_cast<int>(at.half / N), 1};
    while (s.share < s.packs) s.share *= 2;
    return s;
  }
};

/// Σ of the values of `share` neighbouring threads of a warp, a power of two, returned to all of them. All threads of
/// the warp must call it. Only teams of a device may call the function.
KOKKOS_FORCEINLINE_FUNCTION float sum_of_share(float value, [[maybe_unused]] int share) {
#if defined(__CUDA_ARCH__)
  for (int step = share / 2; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
#endif
  return value;
}

/// Σ of the values of those threads of a warp that have the same place in their share of `share` neighbours, a power of
/// two, returned to all of them. All threads of the warp must call it. Only teams of a device may call the function.
KOKKOS_FORCEINLINE_FUNCTION float sum_over_shares(float value, [[maybe_unused]] int share) {
#if defined(__CUDA_ARCH__)
  for (int step = share; step < 32; step *= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
#endif
  return value;
}

/// Throws Error(failed) unless the arguments have the counts that kernels/attention.hpp states.
inline void require_qk_norm(const char* kernel, const tensor::Tensor& qkv, const tensor::Tensor& unnormed,
                            const tensor::Tensor& table, const QkWeights& weights, const QkHeads& heads) {
  SHARD8_REQUIRE(table.shape.rank() == 3 && table.shape[0] == 2, "{}: table is {}, (2, seq, head_dim/2) needed", kernel,
                 tensor::to_string(table.shape));
  const std::int64_t dim = 2 * table.shape[2];
  SHARD8_REQUIRE(heads.all() * dim <= qkv.cols(), "{}: {} heads of {} in a row of {}", kernel, heads.all(), dim,
                 qkv.cols());
  require_count(kernel, "unnormed", unnormed, qkv.rows() * heads.all() * dim);
  require_count(kernel, "the weight of queries", weights.q, dim);
  require_count(kernel, "the weight of keys", weights.k, dim);
}

template <class T>
QkNormArguments<T> qk_norm_arguments(const tensor::Tensor& qkv, const tensor::Tensor& unnormed,
                                     const tensor::Tensor& table, const QkWeights& weights, const QkHeads& heads,
                                     float eps) {
  return {qkv.as<T>(), unnormed.as<T>(), table.as<float>(), weights.q.as<T>(), weights.k.as<T>(), qkv.rows(),
          qkv.cols(),  table.shape[1],   table.shape[2],    heads.queries,     heads.all(),       eps};
}

}  // namespace shard8::kernels
