// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/kokkos/norm_made.hpp"

namespace shard8::kernels {

/// What the forward of a norm reads and writes; mean and bias of LayerNorm alone.
template <class T>
struct NormForward {
  float *mean, *rstd;
  const T *x, *weight, *bias;
  std::int64_t hidden;
  float eps;
};

/// The elements at i of a row of the result, rounded, of what x is there.
template <bool kCentred, class T, class W>
KOKKOS_FORCEINLINE_FUNCTION auto norm_lanes(const NormForward<T>& at, const W& w, std::int64_t i,
                                            const typename W::template Lanes<T>& v, float m, float r) {
  typename W::template Lanes<T> bias{};
  if constexpr (kCentred) bias = w.load(at.bias, i);
  return norm_made<kCentred, T>(w, v, w.load(at.weight, i), bias, m, r);
}

/// Whether a device made a norm, and its transposed cast.
enum class NormMade { no, yes, turned_too };

}  // namespace shard8::kernels
