// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/train/planned.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "train/plan/plan.hpp"

namespace shard8::test {

namespace {

std::string text(const train::Traffic& traffic, std::uint64_t times) {
  std::string lines;
  for (const auto& [key, calls] : traffic)
    lines += fmt::format("{} in {} of {}: {} bytes of {}, {} calls\n", profile::name_of(key.op), key.group,
                         key.group_size, key.bytes, key.dtype, calls * times);
  return lines;
}

}  // namespace

void expect_planned_traffic(Training& training, std::uint64_t steps) {
  train::Traffic counted;
  for (const auto& [key, stats] : training.log().entries()) counted[key] = stats.calls;
  const auto planned = train::traffic(training.setup());
  EXPECT_EQ(text(counted, 1), text(planned, steps));
  EXPECT_EQ(counted.empty(), training.mesh().world.size() == 1);
  EXPECT_EQ(text(train::make_plan(training.setup().config, 1).traffic, 1), text(planned, 1));
}

void expect_planned_memory(Training& training) {
  const auto plan = train::make_plan(training.setup().config, training.setup().threads);
  const auto& bytes = training.trainer().state().arenas.bytes();
  EXPECT_EQ(train::state_bytes(training.setup()), bytes);
  if (training.setup().config.optimizer.clip > 0 || training.setup().place.first(base::AxisSet::tensor))
    EXPECT_EQ(bytes, plan.memory);
  else
    for (std::size_t kind = 0; kind < bytes.size(); ++kind) EXPECT_LE(bytes[kind], plan.memory[kind]);
  if (tensor::kDevice) return;  // on a device groups hold no memory of their own for sums
  const auto& mesh = training.mesh();
  std::size_t held = mesh.world.scratch_bytes();
  for (const auto& [axes, group] : mesh.groups) held += group.scratch_bytes();
  EXPECT_LE(held, plan.reduction_buffers);
  // The plan is larger only because it rounds each tensor up.
  EXPECT_GE(static_cast<double>(held), 0.97 * static_cast<double>(plan.reduction_buffers));
}

}  // namespace shard8::test
