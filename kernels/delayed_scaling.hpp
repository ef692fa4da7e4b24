// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/quantize.hpp"

namespace shard8::kernels {

/// Which of the amaxes of a history makes the scale.
enum class AmaxOf : std::uint8_t { all, last };

/// The end of a step of delayed scaling (TransformerEngine's recipe), for n tensors at once: amax (n)
/// i32 becomes row `row` of history (H, n) i32 and is cleared; then scale (n) = max·2^−margin / a,
/// with a the largest, by its bits, of the first `filled` rows, or the one of this step. a zero,
/// infinite or NaN: the scale stays; infinity becomes FLT_MAX. change (n) i32 holds the bits of the
/// largest factor by which each scale changed since it was made first (0: it was not), and is updated.
void delayed_update(const tensor::Exec& exec, const tensor::Tensor& scale, const tensor::Tensor& change,
                    const tensor::Tensor& history, const tensor::Tensor& amax, std::int64_t row, std::int64_t filled,
                    AmaxOf of, const ScaleRule& rule);

}  // namespace shard8::kernels
