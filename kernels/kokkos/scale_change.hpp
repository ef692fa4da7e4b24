// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/kokkos/cast.hpp"

namespace shard8::kernels {

/// Bits of max(after/before, before/after), which is at least 1; 0 unless both are positive and finite.
KOKKOS_INLINE_FUNCTION std::int32_t scale_change(float before, float after) {
  constexpr float kNone = 0;
  const bool numbers = before > 0 && after > 0 && before <= FLT_MAX && after <= FLT_MAX;
  const float factor = before > after ? before / after : after / before;
  return std::bit_cast<std::int32_t>(numbers ? factor : kNone);
}

/// The largest change so far, as bits, after a scale changed from `before` to `after`. so_far is 0 before the first
/// scale is known; `before` is then not compared and the result is the bits of 1.
KOKKOS_INLINE_FUNCTION std::int32_t largest_change(std::int32_t so_far, float before, float after) {
  if (so_far == 0) return std::bit_cast<std::int32_t>(1.0f);
  const std::int32_t now = scale_change(before, after);
  return now > so_far ? now : so_far;
}

}  // namespace shard8::kernels
