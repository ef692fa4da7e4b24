// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "checkpoint/state_tensor.hpp"
#include "train/state.hpp"

namespace shard8::train {

/// Every tensor that a run must have again to go on from the end of a step as if it had never stopped, and what this
/// rank holds of each, in the order of the units: masters, moments, weights kept in FP8 with their scales, and the
/// scaling state. The names are Hugging Face's; a fused weight is several tensors, a tied table is one, and the
/// inverse scale of a fused weight is listed under each of its names. Padding rows are in no part.
///
/// What a step makes anew is not listed: activations, gradients, amaxes of a step, counts for the report. With a
/// state of measuring arenas the parts have no data. Parts are views of `state`, which must outlive them.
std::vector<checkpoint::StateTensor> state_tensors(const Setup& setup, State& state);

}  // namespace shard8::train
