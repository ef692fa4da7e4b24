// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tests/train/training.hpp"

namespace shard8::test {

/// Runs the deck's steps from the first to the last, records what they do (products, attention, kernels by their Kokkos
/// labels, collectives, and on hosts the waits for collectives), and compares this with train::record_step, in
/// order. Kernels are compared by name and phase; several launches of a kernel in a row count as one. Afterwards the
/// training's log has the collectives of all steps but the first.
void expect_listed_operations(Training& training);

}  // namespace shard8::test
