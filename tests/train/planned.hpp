// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/train/training.hpp"

namespace shard8::test {

/// Expects that the training's log has exactly the collectives of the plan, in each of the steps that it counted.
void expect_planned_traffic(Training& training, std::uint64_t steps);
/// Expects that the arenas have the planned sizes, byte for byte, and that the communicators hold at most what is
/// planned. Without clipping tensor rank 0, for which the plan is made, takes the most: the others add up fewer
/// squares.
void expect_planned_memory(Training& training);

}  // namespace shard8::test
