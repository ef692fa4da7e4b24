// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/train/training.hpp"

namespace shard8::test {

/// Every collective of the steps that the log counted, call by call, is in the plan and no other.
void expect_planned_traffic(Training& training, std::uint64_t steps);
/// Arenas byte for byte, and what the communicators hold. Where nothing is clipped the first tensor rank, of which the
/// plan is, takes the most: the others add up fewer squares.
void expect_planned_memory(Training& training);

}  // namespace shard8::test
