// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/masters.hpp"
#include "deck/config.hpp"
#include "kernels/quantize.hpp"

namespace shard8::train {

/// Checks the values of a checkpoint: masters are finite, and the weights kept in FP8, with their scales, are those
/// that follow from the masters. `config` is that of saved_config().
///
///     current        scale of the amax of the fused weight; bytes; fp8_scale
///     delayed        bytes, by a scale with the stored inverse; the newest amaxes in the history; fp8_scale
///     block, mxfp8   scales of all blocks; bytes of each copy
///
/// The check does not use the kernels that made the values: scale_of() and the functions below it have the formulas of
/// kernels/quantize.hpp a second time. A delayed scale is not stored, only its inverse, so any scale with this inverse
/// is accepted for a weight. A panel of rows is in memory at once.
///
/// Each problem is a message with the checkpoint's folder, the dataset, what is wrong and what to do; at most one for a
/// tensor and content. Error(checkpoint) if bytes cannot be read.
std::vector<std::string> problems_of_values(const checkpoint::Checkpoint& checkpoint,
                                            const checkpoint::Masters& masters, const deck::Config& config);

// The scales of kernels/quantize.hpp, written again from their definitions for one number at a time, so that `shard8
// ckpt verify` compares the kernels with a second computation.

/// The bits of |x|. As integers they have the order of the numbers; NaN is above all.
inline std::uint32_t magnitude(float x) { return std::bit_cast<std::uint32_t>(x) & 0x7fffffffu; }

/// The scale of an amax, given as bits (kernels::ScaleRule); nothing for an amax of 0, infinity or NaN.
std::optional<float> scale_of(std::uint32_t amax, const kernels::ScaleRule& rule);

/// What a block is multiplied with before its cast to e4m3, and the bits of its stored inverse scale.
struct BlockScale {
  float factor = 1;
  std::uint32_t inverse = 0;  ///< of fp32 or e8m0
};
/// The scale of a block of 128 columns or rows, with an inverse scale in fp32.
BlockScale wide_block(std::uint32_t amax, bool power_of_2);
/// The scale of a block of 32 elements, with an inverse scale in e8m0: amax/448 rounded up to a power of two.
BlockScale narrow_block(std::uint32_t amax);

/// All scales whose inverse is rounded to this number: one to four, unless the inverse is subnormal.
std::vector<float> scales_with_inverse(float inverse);

}  // namespace shard8::train
