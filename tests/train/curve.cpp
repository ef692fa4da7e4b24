// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/train/curve.hpp"

#include <gtest/gtest.h>

#include "tensor/transfer.hpp"
#include "tests/support/compare.hpp"
#include "tests/train/training.hpp"

namespace shard8::test {

Curve train_curve(const deck::Config& config) {
  Training training(config, MPI_COMM_WORLD);
  Curve curve;
  for (const auto& r : training.run(0, config.run.steps)) {
    curve.losses.push_back(r.loss);
    curve.norms.push_back(r.gradient_norm);
  }
  const auto& units = training.trainer().state().units;
  for (int u = 0; u < static_cast<int>(units.units().size()) && !units.options().master_remainder; ++u)
    for (const auto& weight : units.weights(u)) {
      const auto elements = tensor::to_host<float>(training.exec(), weight.master);
      curve.weights.insert(curve.weights.end(), elements.begin(), elements.end());
    }
  return curve;
}

void expect_same(const Curve& got, const Curve& want) {
  EXPECT_TRUE(tests::same_bits(got.losses, want.losses)) << "loss by step";
  EXPECT_TRUE(tests::same_bits(got.norms, want.norms)) << "gradient norm by step";
  EXPECT_TRUE(tests::same_bits(got.weights, want.weights)) << "weights at the end";
}

}  // namespace shard8::test
