// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tests/train/training.hpp"

namespace shard8::test {

/// Copies the state of a training to another one on the same mesh, in memory, when `step` steps have been trained. The
/// decks may differ in keys that change no dtype. If the keys of the group fp8 differ, weights in FP8 and all scales
/// are those of a start. It is what a restart does, without checkpoints.
void hand_over(Training& from, Training& to, std::int64_t step);

}  // namespace shard8::test
