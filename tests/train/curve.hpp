// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "deck/config.hpp"

namespace shard8::test {

/// The results of a training, to be compared bit for bit.
struct Curve {
  std::vector<double> losses, norms;
  std::vector<float> weights;  ///< this rank's fp32 master shards at the end; empty with master bf16_remainder
};

/// Trains all steps of the deck on all ranks.
Curve train_curve(const deck::Config& config);

void expect_same(const Curve& got, const Curve& want);

}  // namespace shard8::test
