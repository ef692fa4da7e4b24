// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/train/decks.hpp"
#include "tests/train/training.hpp"
#include "train/verify.hpp"

// Trains fifty steps with BF16 and with every FP8 recipe, and compares the losses with those of hosts
// (tests/gold/README.md).

namespace shard8 {
namespace {

/// The relative difference allowed. Devices sum in other orders than hosts and round attention's probabilities to BF16.
/// The BLAS kernels of another processor alone cause differences of a few thousandths in fifty steps.
constexpr double kAllowed = 1e-2;
/// The relative difference allowed for the first loss, before an update has made differences larger.
constexpr double kAllowedFirst = 1e-3;

deck::Config deck_for(const std::string& recipe, const std::string& format, const std::array<int, 3>& mesh) {
  const std::string path = fmt::format("{}/inputs/small/llama_recipes.yaml", SHARD8_SOURCE_DIR);
  const std::vector<std::string> overrides = {"fp8.recipe=" + (recipe == "bf16" ? "none" : recipe),
                                              "fp8.format=" + format, fmt::format("mesh.replicate={}", mesh[0]),
                                              fmt::format("mesh.shard={}", mesh[1]),
                                              fmt::format("mesh.tensor={}", mesh[2])};
  return deck::load(path, overrides).config;
}

/// The reference has the recipe's default format: with gradients in E5M2 block trains as it does in E4M3.
void run(const std::string& recipe, const std::string& format, const std::array<int, 3>& mesh) {
  SCOPED_TRACE(fmt::format("{}, {}, mesh {}x{}x{}", recipe, format, mesh[0], mesh[1], mesh[2]));
  const auto want = train::read_gold(fmt::format("{}/tests/gold/recipe_{}.jsonl", SHARD8_SOURCE_DIR, recipe));
  const deck::Config config = deck_for(recipe, format, mesh);
  ASSERT_EQ(static_cast<std::int64_t>(want.size()), config.run.steps);
  ASSERT_LT(want.back(), 0.7 * want.front()) << "the reference learned nothing";
  test::Training training(config, MPI_COMM_WORLD);
  double worst = 0;
  for (const auto& r : training.run(0, config.run.steps)) {
    const double reference = want[static_cast<std::size_t>(r.step)];
    const double error = std::abs(r.loss - reference) / reference;
    EXPECT_LE(error, r.step == 0 ? kAllowedFirst : kAllowed)
        << "step " << r.step << ": loss " << r.loss << ", reference " << reference;
    worst = std::max(worst, error);
  }
  for (const auto& row : training.trainer().state().scaling.figures(training.exec()))
    EXPECT_GT(row.elements, 0U) << row.tensor << " was never cast";
  if (training.mesh().world.rank() == 0)
    fmt::print("{}, {}, mesh {}x{}x{}: losses within {:.1e}\n", recipe, format, mesh[0], mesh[1], mesh[2], worst);
}

TEST(Recipes, TrainAsOnHosts) {
  constexpr std::array<int, 3> kMeshes[] = {{1, 1, 1}, {1, 2, 1}, {1, 4, 1}, {2, 2, 1}, {1, 1, 2}, {1, 2, 2}};
  int runs = 0;
  for (const auto& mesh : kMeshes) {
    if (mesh[0] * mesh[1] * mesh[2] != test::world_size()) continue;
    for (const auto& [recipe, format] : {std::pair<std::string, std::string>{"bf16", "auto"},
                                         {"delayed", "auto"},
                                         {"current", "auto"},
                                         {"block", "auto"},
                                         {"block", "hybrid"},
                                         {"mxfp8", "auto"}}) {
      if (recipe == "block" && mesh[2] > 1) continue;  // half the width is not a multiple of 128
      run(recipe, format, mesh);
      ++runs;
    }
  }
  EXPECT_GT(runs, 0);
}

}  // namespace
}  // namespace shard8
