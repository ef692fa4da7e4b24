// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/kokkos/cast.hpp"
#include "kernels/kokkos/fast_math.hpp"
#include "kernels/kokkos/lanes.hpp"

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
