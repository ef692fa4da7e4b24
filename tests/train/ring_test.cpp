// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <cmath>

#include "tests/train/decks.hpp"
#include "tests/train/training.hpp"

// Exchanges of the tensor group round a ring of two, three or four ranks. Gathers change no bit of a training. Sums are
// added in the order of the ring: they repeat bit for bit, and with two ranks they are those of plain reduce-scatters.

namespace shard8 {
namespace {

using test::Curve;
using test::expect_same;

constexpr const char* kGathers = "enable: true, qkv_fprop: ring, fc1_fprop: ring, head_fprop: ring";
constexpr const char* kAll =
    "enable: true, qkv_fprop: ring, proj_fprop: ring, fc1_fprop: ring, fc2_fprop: ring, head_fprop: ring";

struct Case {
  const char* arch;
  const char* compute;
  const char* recipe;
  int micro_batch;  ///< of a batch of 4
  double most;  ///< relative difference of losses between two orders of a sum: bounds_of() in tests/random/trial.cpp
};
constexpr Case kCases[] = {{"llama", "fp32", "none", 2, 2e-6},
                           {"gpt2", "bf16", "none", 4, 2e-3},
                           {"llama", "bf16", "current", 4, 3e-2},
                           {"gpt2", "bf16", "delayed", 2, 3e-2}};

deck::Config deck_of(const Case& c, const char* overlap, const char* recompute) {
  const std::string text =
      fmt::format(R"(
model: {{arch: {}, hidden: 192, ffn: 192, layers: 2, heads: 12, vocab: 67, seq: 96, recompute: {}}}
mesh: {{tensor: {}}}
precision: {{compute: {}}}
fp8: {{recipe: {}}}
overlap: {{{}}}
optimizer: {{lr: 0.002, warmup: 1}}
data: {{kind: synthetic, batch: 4, micro_batch: {}}}
run: {{steps: 2}}
)",
                  c.arch, recompute, test::world_size(), c.compute, c.recipe, overlap, c.micro_batch);
  return deck::load_text(text, "ring.yaml").config;
}

Curve train(const Case& c, const char* overlap, const char* recompute = "none") {
  return test::train_curve(deck_of(c, overlap, recompute));
}

TEST(Ring, of_gathers_changes_no_bit) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(fmt::format("{} {} {}", c.arch, c.compute, c.recipe));
    const Curve plain = train(c, "enable: false");
    EXPECT_NE(plain.losses.front(), plain.losses.back());
    expect_same(train(c, kGathers), plain);
  }
}

TEST(Ring, of_sums_repeats) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(fmt::format("{} {} {}", c.arch, c.compute, c.recipe));
    const Curve plain = train(c, "enable: false"), first = train(c, kAll);
    expect_same(train(c, kAll, c.micro_batch == 2 ? "full" : "selective"), first);
    if (test::world_size() == 2) expect_same(first, plain);
    for (std::size_t s = 0; s < plain.losses.size(); ++s)
      EXPECT_NEAR(first.losses[s], plain.losses[s], c.most * plain.losses[s]) << "step " << s;
  }
}

TEST(Ring, is_what_the_plan_says) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(fmt::format("{} {} {}", c.arch, c.compute, c.recipe));
    test::Training training(deck_of(c, kAll, "none"), MPI_COMM_WORLD);
    test::expect_listed_operations(training);
    test::expect_planned_memory(training);
  }
}

}  // namespace
}  // namespace shard8
