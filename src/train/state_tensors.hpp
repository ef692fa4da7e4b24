// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "checkpoint/state_tensor.hpp"
#include "train/state.hpp"

namespace shard8::train {

/// The persistent tensors: a run that starts with them goes on from the end of a step as if it had never stopped. With
/// each comes the part that this rank holds. In the order of the units: masters, moments, weights kept in FP8 with
/// their scales; then the scaling state. The names are Hugging Face's. A fused weight is several tensors, a tied table
/// is one, and the inverse scale of a fused weight is listed under each of its names. Padding rows are in no part.
///
/// Not listed is what every step computes for itself: activations, gradients, amaxes of a step, counts for the report.
/// With a state of measuring arenas the parts have no data. Parts are views of `state`, which must outlive them.
///
/// StateTensor::group is the unit, or scaling_group() for tensors of all matrices.
std::vector<checkpoint::StateTensor> state_tensors(const Setup& setup, State& state);

/// The group of the tensors that a step changes when all units have been updated.
int scaling_group(const Setup& setup);

}  // namespace shard8::train
