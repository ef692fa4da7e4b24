// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/quantize.hpp"

namespace shard8::kernels {

/// Which amaxes determine the scale: all in the history, or only the last one.
enum class AmaxOf : std::uint8_t { all, last };

/// Ends a step of delayed scaling (TransformerEngine's recipe) for n tensors at once. First amax (n) i32, the bits of
/// this step's amaxes, is copied to row `row` of history (H, n) i32 and set to 0. Then scale (n) fp32 becomes
/// max·2^−margin / a by `rule`, for the casts of the next step. AmaxOf::all: a is the largest amax, by its bits, of
/// this step and of the first `filled` rows of history. AmaxOf::last: a is the amax of this step. If a is zero,
/// infinite or NaN, the scale stays. A scale of infinity becomes FLT_MAX.
/// change (n) i32 is updated: the bits of the largest factor, up or down, by which each scale has changed since the
/// first update. The caller sets change to 0 before the first update, which sets it to the bits of 1.
/// Required are 0 ≤ row < H and 1 ≤ filled ≤ H; other values, and other counts, are an Error(failed).
void delayed_update(const tensor::Exec& exec, const tensor::Tensor& scale, const tensor::Tensor& change,
                    const tensor::Tensor& history, const tensor::Tensor& amax, std::int64_t row, std::int64_t filled,
                    AmaxOf of, const ScaleRule& rule);

}  // namespace shard8::kernels
