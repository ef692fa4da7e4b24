// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/io/files.hpp"
#include "tests/restart/program.hpp"

// 40 steps in one go against 20 steps, a stop and a restart, as users run the program.

namespace shard8 {
namespace {

constexpr int kSteps = 40, kStop = 20;

struct Variant {
  std::string arch = "llama", compute = "fp32", recipe = "none";
  int replicate = 1, shard = 2, tensor = 1;
  bool low = false;  ///< masters with a remainder and moments in bf16; with a recipe, weights in bf16, too
};

/// Layers that are all gathered ahead, tied tables, and three micro-batches on each data rank.
std::string deck_of(const Variant& v) {
  const int g = v.recipe == "block" ? 128 : v.recipe == "mxfp8" ? 32 : 16;
  std::string text = fmt::format(
      "model:     {{arch: {}, hidden: {}, ffn: {}, layers: 2, heads: {}, vocab: 200, seq: {}, "
      "tie_embeddings: true}}\n",
      v.arch, g * v.tensor, g * v.tensor, 2 * v.tensor, g * v.tensor);
  text += fmt::format("mesh:      {{replicate: {}, shard: {}, tensor: {}}}\n", v.replicate, v.shard, v.tensor);
  text += fmt::format("precision: {{compute: {}}}\n", v.compute);
  text += "fsdp:      {prefetch: 2}\n";
  if (v.recipe != "none")
    text += fmt::format("fp8:       {{recipe: {}, weights: {}{}}}\n", v.recipe, v.low ? "bf16" : "fp8",
                        v.recipe == "delayed" ? ", amax_history: 7" : "");
  text += fmt::format("optimizer: {{lr: 0.003, warmup: 5, clip: {}{}}}\n", v.low ? 1 : 0,
                      v.low ? ", master: bf16_remainder, moments: bf16" : "");
  text += fmt::format("data:      {{kind: synthetic, batch: {}, micro_batch: 1}}\n", 3 * v.replicate * v.shard);
  text += fmt::format("run:       {{steps: {}, log_every: 1000}}\n", kSteps);
  return text;
}

/// A run of a variant in a folder, whose output goes to the folder's folder NAME.
test::ProgramEnd run(const test::TempFolder& folder, const Variant& v, const std::string& name,
                     std::vector<std::string> arguments) {
  arguments.push_back("output.dir=" + name);
  return test::run_program(
      {.folder = folder.path(), .ranks = v.replicate * v.shard * v.tensor, .arguments = std::move(arguments)});
}

void expect_same_training(const Variant& v) {
  SCOPED_TRACE(deck_of(v));
  const test::TempFolder folder;
  test::write_bytes(folder / "deck.yaml", deck_of(v));
  const auto whole = run(folder, v, "whole", {"checkpoint.every=40"});
  ASSERT_EQ(whole.code, 0) << whole.output;
  const auto metrics = test::metrics_of(folder / "whole/metrics.jsonl");
  ASSERT_EQ(metrics.size(), static_cast<std::size_t>(kSteps));
  const auto tensors = test::tensors_of(folder / "whole/checkpoints/step_00000040");
  for (const bool async : {true, false}) {
    if (async && v.low) continue;  // shown by the other variant of the recipe
    const std::string name = async ? "async" : "sync";
    SCOPED_TRACE(name);
    const std::vector<std::string> write = {fmt::format("checkpoint.every={}", async ? 4 : 10),
                                            fmt::format("checkpoint.async={}", async),
                                            fmt::format("checkpoint.files={}", async ? "node" : "rank")};
    auto stop = write;
    stop.push_back(fmt::format("run.stop_after={}", kStop));
    const auto first = run(folder, v, name, stop);
    ASSERT_EQ(first.code, 75) << first.output;
    EXPECT_EQ(test::metrics_of(folder / (name + "/metrics.jsonl")).size(), static_cast<std::size_t>(kStop));
    const auto second = run(folder, v, name, write);
    ASSERT_EQ(second.code, 0) << second.output;
    EXPECT_EQ(test::restarted_from(second.output), name + "/checkpoints/step_00000020");
    EXPECT_EQ(test::difference_of_lines(test::metrics_of(folder / (name + "/metrics.jsonl")), metrics), "");
    EXPECT_EQ(test::difference_of_tensors(test::tensors_of(folder / (name + "/checkpoints/step_00000040")), tensors),
              "");
  }
}

TEST(Fp32, GoesOnBitForBit) {
  expect_same_training({});
  expect_same_training({.arch = "gpt2", .shard = 1, .tensor = 2});
}
TEST(Bf16, GoesOnBitForBit) {
  expect_same_training({.compute = "bf16", .replicate = 2, .shard = 1});
  expect_same_training({.arch = "gpt2", .compute = "bf16", .low = true});
}
TEST(Delayed, GoesOnBitForBit) {
  expect_same_training({.compute = "bf16", .recipe = "delayed"});
  expect_same_training({.arch = "gpt2", .compute = "bf16", .recipe = "delayed", .shard = 1, .tensor = 2, .low = true});
}
TEST(Current, GoesOnBitForBit) {
  expect_same_training({.arch = "gpt2", .compute = "bf16", .recipe = "current", .shard = 1, .tensor = 2});
  expect_same_training({.compute = "bf16", .recipe = "current", .low = true});
}
TEST(Block, GoesOnBitForBit) {
  expect_same_training({.arch = "gpt2", .compute = "bf16", .recipe = "block"});
  expect_same_training({.compute = "bf16", .recipe = "block", .replicate = 2, .shard = 1, .low = true});
}
TEST(Mxfp8, GoesOnBitForBit) {
  expect_same_training({.compute = "bf16", .recipe = "mxfp8", .shard = 1, .tensor = 2});
  expect_same_training({.compute = "bf16", .recipe = "mxfp8", .low = true});
}

}  // namespace
}  // namespace shard8
