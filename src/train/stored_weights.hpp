// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "checkpoint/masters.hpp"
#include "deck/config.hpp"

namespace shard8::train {

/// Checks the values of a checkpoint: masters are finite, and the weights kept in FP8, with their scales, are those
/// that follow from the masters. `config` is that of saved_config().
///
///     current        scale of the amax of the fused weight; bytes; fp8_scale
///     delayed        bytes, by a scale with the stored inverse; the newest amaxes in the history; fp8_scale
///     block, mxfp8   scales of all blocks; bytes of each copy
///
/// It does not use the kernels that made them: weight_scales.hpp has the formulas of kernels/quantize.hpp again. A
/// delayed scale is not stored, only its inverse, so any scale with this inverse is accepted for a weight. A panel of
/// rows is in memory at once.
///
/// Each problem is a message with the checkpoint's folder, the dataset, what is wrong and what to do; at most one for a
/// tensor and content. Error(checkpoint) if bytes cannot be read.
std::vector<std::string> problems_of_values(const checkpoint::Checkpoint& checkpoint,
                                            const checkpoint::Masters& masters, const deck::Config& config);

}  // namespace shard8::train
