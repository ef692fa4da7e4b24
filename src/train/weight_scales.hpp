// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/quantize.hpp"

namespace shard8::train {

// The scales of kernels/quantize.hpp, written again from their definitions for one number at a time, so that `shard8
// ckpt verify` does not ask the kernels whether the kernels were right.

/// The bits of |x|. As integers they have the order of the numbers; NaN is above all.
inline std::uint32_t magnitude(float x) { return std::bit_cast<std::uint32_t>(x) & 0x7fffffffu; }

/// The scale of an amax, given as bits (kernels::ScaleRule); nothing for an amax of 0, infinity or NaN.
std::optional<float> scale_of(std::uint32_t amax, const kernels::ScaleRule& rule);

/// What a block is multiplied with before its cast to e4m3, and the bits of its stored inverse scale.
struct BlockScale {
  float factor = 1;
  std::uint32_t inverse = 0;  ///< of fp32 or e8m0
};
/// Of a block of 128 columns or rows, with an inverse scale in fp32.
BlockScale wide_block(std::uint32_t amax, bool power_of_2);
/// Of a block of 32 elements, with an inverse scale in e8m0: amax/448 rounded up to a power of two.
BlockScale narrow_block(std::uint32_t amax);

/// All scales whose inverse is rounded to this number: one to four, unless the inverse is subnormal.
std::vector<float> scales_with_inverse(float inverse);

}  // namespace shard8::train
