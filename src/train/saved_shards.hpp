// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "checkpoint/box_index.hpp"
#include "train/setup.hpp"

namespace shard8::train {

/// The ranks that held a box of a tensor in a run of this deck on the mesh `saved`, by the rules that state_tensors()
/// follows. Where the saved run had another granularity of shards (another FP8 recipe), the answer may be a
/// neighbour.
checkpoint::LikelyRanks likely_ranks(const Setup& setup, const base::Extents& saved);

}  // namespace shard8::train
