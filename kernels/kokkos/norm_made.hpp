// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/kokkos/cast.hpp"
#include "kernels/kokkos/fast_math.hpp"
#include "kernels/kokkos/lanes.hpp"

/// What norms make of elements of a row of x, of weight and of bias, in the width w.
namespace shard8::kernels {

/// weight · T(x·rstd): of packs of bf16 lanes that are rounded, else Values that are not.
template <class T, class W, class Lanes>
KOKKOS_FORCEINLINE_FUNCTION auto rmsnorm_made(const W& w, const Lanes& x, const Lanes& weight, float rstd) {
  const auto normed = w.template round_results<T>(w.each([&](int j) { return x[j] * rstd; }));
  if constexpr (kOfBf16<Lanes>) {
    return w.multiply(weight, normed);
  } else {
    return w.each([&](int j) { return weight[j] * normed[j]; });
  }
}

/// weight·(x − mean)·rstd + bias, not rounded.
template <class W, class Lanes>
KOKKOS_FORCEINLINE_FUNCTION auto layernorm_made(const W& w, const Lanes& x, const Lanes& weight, const Lanes& bias,
                                                float mean, float rstd) {
  return w.each([&](int j) { return multiply_add((x[j] - mean) * rstd, weight[j], bias[j]); });
}

/// One or the other as lanes of T; bias and mean of the centred one alone.
template <bool kCentred, class T, class W, class Lanes>
KOKKOS_FORCEINLINE_FUNCTION Lanes norm_made(const W& w, const Lanes& x, const Lanes& weight, const Lanes& bias,
                                            float mean, float rstd) {
  if constexpr (kCentred) {
    return w.template round_results<T>(layernorm_made(w, x, weight, bias, mean, rstd));
  } else if constexpr (kOfBf16<Lanes>) {
    return rmsnorm_made<T>(w, x, weight, rstd);
  } else {
    return w.template round_results<T>(rmsnorm_made<T>(w, x, weight, rstd));
  }
}

}  // namespace shard8::kernels
