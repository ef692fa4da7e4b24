// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "deck/load.hpp"
#include "tests/support/compare.hpp"
#include "tests/train/decks.hpp"
#include "tests/train/training.hpp"
#include "train/stopping.hpp"

namespace shard8 {
namespace {

constexpr std::int64_t kSteps = 4;

struct Result {
  std::vector<double> losses, norms, validations;
  std::vector<test::Hashed> state;
};

Result train(const deck::Config& config, MPI_Comm comm, bool hashes) {
  test::Training training(config, comm);
  train::Trainer& trainer = training.trainer();
  Result result;
  train::LoopHooks hooks;
  hooks.validate = [&](const train::StepResult& step) -> std::optional<train::Validation> {
    if (!trainer.validates_after(step.step)) return std::nullopt;
    const train::Validation first = trainer.validate({}), again = trainer.validate({});
    EXPECT_TRUE(first.loss && again.loss);
    EXPECT_EQ(first.loss, again.loss);
    EXPECT_EQ(first.tokens, again.tokens);
    result.validations.push_back(*first.loss);
    return first;
  };
  hooks.after = [&](const train::StepResult& step) {
    result.losses.push_back(step.loss);
    result.norms.push_back(step.gradient_norm);
  };
  train::train(trainer, {.first = 0, .end = config.run.steps}, hooks);
  if (hashes) result.state = test::hashes_of(training);
  return result;
}

/// Meshes of all ranks. FP8 needs sizes that divide.
std::vector<std::array<int, 3>> meshes() {
  const int ranks = test::world_size();
  if (ranks == 4) return {{1, 4, 1}, {2, 1, 2}, {1, 2, 2}};
  if (ranks == 2) return {{1, 2, 1}, {1, 1, 2}, {2, 1, 1}};
  return {{1, ranks, 1}};
}

void expect_bits_untouched(deck::Config config) {
  config.run.validate_every = 0;
  const Result without = train(config, MPI_COMM_WORLD, true);
  config.run.validate_every = 1;
  const Result with = train(config, MPI_COMM_WORLD, true);
  EXPECT_TRUE(tests::same_bits(with.losses, without.losses));
  EXPECT_TRUE(tests::same_bits(with.norms, without.norms));
  EXPECT_EQ(with.state, without.state);
  EXPECT_EQ(with.validations.size(), static_cast<std::size_t>(kSteps));
  for (const double loss : with.validations) EXPECT_TRUE(std::isfinite(loss));
}

deck::Config validating(const test::Variant& v) {
  deck::Config config = test::small_deck(v, static_cast<int>(kSteps));
  config.data.validation = 0.5;
  config.run.validate_batches = 2;
  config.run.validate_every = 1;
  return config;
}

TEST(Validation, LeavesTheBitsOfATraining) {
  for (const auto& mesh : meshes()) {
    for (const test::Variant& v :
         {test::Variant{.mesh = mesh, .micro_batch = 1, .prefetch = 0},
          test::Variant{.mesh = mesh, .tied = true, .prefetch = 2, .recompute = "full"},
          test::Variant{.mesh = mesh, .arch = "gpt2", .reshard = false, .compute = "bf16"},
          test::Variant{.mesh = mesh, .micro_batch = 2, .recompute = "selective", .compute = "bf16"}}) {
      SCOPED_TRACE(test::name_of(v));
      expect_bits_untouched(validating(v));
    }
  }
}

TEST(Validation, LeavesTheBitsOfATrainingInFp8) {
  for (const char* recipe : {"delayed", "current", "block", "mxfp8"}) {
    for (const char* weights : {"fp8", "bf16"}) {
      for (const char* recompute : {"none", "selective", "full"}) {
        if (std::string(weights) == "bf16" && std::string(recompute) != "none") continue;
        const bool block = std::string(recipe) == "block";
        for (const auto& mesh : meshes()) {
          if (block && mesh[2] > 1) continue;  // matrices of 128 would be too many for a small test
          const std::string size =
              block ? "hidden: 128, ffn: 128, heads: 2, seq: 128" : "hidden: 64, ffn: 128, heads: 4, seq: 64";
          SCOPED_TRACE(fmt::format("{} {} {} {}x{}x{}", recipe, weights, recompute, mesh[0], mesh[1], mesh[2]));
          expect_bits_untouched(
              deck::load_text(fmt::format(R"(
model: {{{}, layers: 2, vocab: 67, recompute: {}}}
mesh: {{replicate: {}, shard: {}, tensor: {}}}
fp8: {{recipe: {}, weights: {}, amax_history: 2}}
optimizer: {{lr: 0.01, warmup: 1, decay_steps: 100}}
data: {{kind: synthetic, batch: 4, micro_batch: 1, validation: 0.5}}
run: {{steps: {}, validate_every: 1, validate_batches: 1}}
)",
                                          size, recompute, mesh[0], mesh[1], mesh[2], recipe, weights, kSteps),
                              "fp8.yaml")
                  .config);
        }
      }
    }
  }
}

TEST(Validation, IsEqualOnEveryMesh) {
  const Result one = train(validating({}), MPI_COMM_SELF, false);
  for (const auto& mesh : meshes()) {
    for (const int micro_batch : {0, 1}) {
      const Result result = train(validating({.mesh = mesh, .micro_batch = micro_batch}), MPI_COMM_WORLD, false);
      for (std::size_t i = 0; i < one.validations.size(); ++i)
        EXPECT_NEAR(result.validations[i], one.validations[i], 2e-6 * one.validations[i]);
    }
  }
}

/// A file of this process, removed at its end.
class Text {
 public:
  Text(const std::string& name, const std::string& bytes)
      : path_(std::filesystem::temp_directory_path() / fmt::format("shard8_validation_{}_{}", getpid(), name)) {
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  ~Text() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

// A training that learns nothing has, as its loss, that of a validation of the same sequences.
TEST(Validation, IsTheLossOfTheSameSequencesInATraining) {
  if (test::world_size() > 1) GTEST_SKIP() << "one rank computes both";
  std::string bytes;
  for (int i = 0; i < 10 * 16 + 1; ++i) bytes += static_cast<char>('a' + i * i % 23);
  const Text all("all", bytes), last("last", bytes.substr(7 * 16));
  const auto deck = [](const std::string& path, const std::string& data, const std::string& run) {
    return deck::load_text(fmt::format(R"(
model: {{hidden: 48, ffn: 96, layers: 3, heads: 4, vocab: 256, seq: 16}}
mesh: {{shard: 1}}
precision: {{compute: fp32}}
optimizer: {{lr: 1.0e-30, weight_decay: 0}}
data: {{kind: bytes, path: {}, micro_batch: 1, {}}}
run: {{steps: 1, timing_skip: 0{}}}
)",
                                       path, data, run),
                           "lr0.yaml")
        .config;
  };
  // The last 3 of 10 samples, in a short batch of 4; the micro-batches of a training come in another order.
  const Result validated =
      train(deck(all.path(), "batch: 4, validation: 0.3", ", validate_every: 1"), MPI_COMM_SELF, false);
  const Result trained = train(deck(last.path(), "batch: 3", ""), MPI_COMM_SELF, false);
  ASSERT_EQ(validated.validations.size(), 1u);
  EXPECT_NEAR(validated.validations[0], trained.losses[0], 1e-12 * trained.losses[0]);  // sums of doubles, in any order
}

TEST(Validation, StopsWhereOneRankAsks) {
  test::Training training(validating({.mesh = meshes().front()}), MPI_COMM_WORLD);
  train::Trainer& trainer = training.trainer();
  trainer.step(0);
  const bool asks = training.mesh().world.rank() + 1 == test::world_size();
  const train::Validation stopped = trainer.validate([&] { return asks ? 3u : 0u; });
  EXPECT_FALSE(stopped.loss);
  EXPECT_EQ(stopped.stop_request, 3u);
  EXPECT_EQ(stopped.batches, 1);
  EXPECT_TRUE(trainer.validate({}).loss);
  trainer.step(1);
}

}  // namespace
}  // namespace shard8
