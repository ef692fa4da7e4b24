// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>

#include "kernels/host/micro_gemm.hpp"

namespace shard8::kernels {

/// One step of the butterfly that transposes kLanes vectors. `low` and `high` are vectors whose numbers differ in bit
/// `Bit`. The step exchanges the lanes of `low` that have the bit with the lanes of `high` that do not.
template <int Bit, std::size_t... Lane>
inline void swap_lanes(Vector& low, Vector& high, std::index_sequence<Lane...>) {
  constexpr auto bit = static_cast<std::size_t>(Bit), lanes = static_cast<std::size_t>(kLanes);
  const Vector a = low, b = high;
  low = __builtin_shufflevector(a, b, ((Lane & bit) == 0 ? Lane : lanes + Lane - bit)...);
  high = __builtin_shufflevector(a, b, ((Lane & bit) == 0 ? Lane + bit : lanes + Lane)...);
}

template <int Bit>
inline void swap_bit(Vector (&x)[kLanes]) {
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) {
    if ((i & Bit) == 0) swap_lanes<Bit>(x[i], x[i + Bit], std::make_index_sequence<kLanes>{});
  }
}

/// to (columns, rows) = from (rows, columns)ᵀ. Both extents and both strides must be multiples of kLanes.
inline void transpose(float* to, std::int64_t to_stride, const float* from, std::int64_t from_stride, std::int64_t rows,
                      std::int64_t columns) {
  for (std::int64_t i = 0; i < rows; i += kLanes) {
    for (std::int64_t j = 0; j < columns; j += kLanes) {
      Vector x[kLanes];
#pragma GCC unroll 16
      for (int l = 0; l < kLanes; ++l) x[l] = *reinterpret_cast<const Vector*>(from + (i + l) * from_stride + j);
      swap_bit<1>(x);
      swap_bit<2>(x);
      if constexpr (kLanes > 4) swap_bit<4>(x);
      if constexpr (kLanes > 8) swap_bit<8>(x);
#pragma GCC unroll 16
      for (int l = 0; l < kLanes; ++l) *reinterpret_cast<Vector*>(to + (j + l) * to_stride + i) = x[l];
    }
  }
}

}  // namespace shard8::kernels
