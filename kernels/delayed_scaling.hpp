// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/quantize.hpp"

namespace shard8::kernels {

/// Which amaxes of a history determine the scale: all, or the last one.
enum class AmaxOf : std::uint8_t { all, last };

/// The end of a step of delayed scaling (TransformerEngine's recipe), for n tensors at once: amax (n)
/// i32 becomes row `row` of history (H, n) i32 and is cleared; then scale (n) = max·2^−margin / a,
/// where a is the largest amax, by its bits, of the first `filled` rows (AmaxOf::all) or the amax of this step (last).
/// If a is zero, infinite or NaN, the scale stays; a scale of infinity becomes FLT_MAX. change (n) i32 is updated: the
/// bits of the largest factor by which each scale changed since it was first computed, 0 before that.
void delayed_update(const tensor::Exec& exec, const tensor::Tensor& scale, const tensor::Tensor& change,
                    const tensor::Tensor& history, const tensor::Tensor& amax, std::int64_t row, std::int64_t filled,
                    AmaxOf of, const ScaleRule& rule);

}  // namespace shard8::kernels
