// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "tests/support/compare.hpp"
#include "tests/train/decks.hpp"
#include "tests/train/training.hpp"

// A training has the same bits on every mesh replicate × shard of equally many data ranks, a power of two: sums over
// data ranks are one binary tree. Tensor ranks and micro-batches stay. Gradients are reduced in fp32.

namespace shard8 {
namespace {

/// The settings of a deck but for replicate and shard.
struct Settings {
  int data_ranks = 1, tensor = 1;
  std::string recipe = "none";
  const char* compute = "bf16";
  int clip = 1;
  const char* accumulate = "full";
  int micro_batches = 1;
  const char* arch = "llama";
  const char* extra = "";  ///< further groups
  int expert = 0;          ///< ranks that hold a layer's eight experts; 0: the layers have none
};

std::string name_of(const Settings& s) {
  return fmt::format("{} data ranks x tensor {}, {} {} {}, clip {}, accumulate {}, {} micro-batches{}{}, expert {}",
                     s.data_ranks, s.tensor, s.arch, s.recipe, s.compute, s.clip, s.accumulate, s.micro_batches,
                     *s.extra == '\0' ? "" : ", ", s.extra, s.expert);
}

/// A deck as small as the recipe's blocks allow. With several micro-batches the last data rank computes a sequence of
/// padding; with one its gradients would be 0, and no order of sums of four would show.
deck::Config deck_of(const Settings& s, int shard) {
  const bool fp8 = s.recipe != "none";
  const int block = s.recipe == "block" ? 128 : s.recipe == "mxfp8" ? 32 : 16;
  const int hidden = fp8 ? std::max(64, block * s.tensor) : 48, seq = fp8 ? block * s.tensor : 8;
  const std::string text = fmt::format(
      R"(
model: {{arch: {}, hidden: {}, ffn: {}, layers: 2, heads: 4, kv_heads: {}, vocab: 67, seq: {}}}
mesh: {{replicate: {}, shard: {}, tensor: {}, expert: {}}}
precision: {{compute: {}}}
fp8: {{recipe: {}}}
fsdp: {{accumulate: {}}}
optimizer: {{lr: 0.01, warmup: 1, decay_steps: 100, clip: {}}}
data: {{kind: synthetic, batch: {}, micro_batch: 1}}
run: {{steps: 4}}
{}{})",
      s.arch, hidden, fp8 ? hidden : 96, !fp8 && std::string(s.arch) == "llama" ? 2 : 4, seq, s.data_ranks / shard,
      shard, s.tensor, std::max(1, s.expert), s.compute, s.recipe, s.accumulate, s.clip,
      s.data_ranks * s.micro_batches - (s.micro_batches > 1 ? 1 : 0), s.extra,
      s.expert == 0 ? "" : fmt::format("moe: {{experts: 8, ffn: {}, balance: 0.01}}\n", fp8 ? hidden : 40));
  return deck::load_text(text, "data_ranks.yaml").config;
}

/// What must have the same bits: the results of all steps, and all persistent tensors at the end.
struct Result {
  std::vector<double> losses, norms;
  std::vector<double> unit_norms, weight_norms;  ///< of the last step
  std::vector<test::Hashed> hashes;
};

Result train(const deck::Config& config) {
  test::Training training(config, MPI_COMM_WORLD);
  Result result;
  for (const auto& step : training.run(0, config.run.steps)) {
    result.losses.push_back(step.loss);
    result.norms.push_back(step.gradient_norm);
  }
  result.hashes = test::hashes_of(training);
  const auto unit_norms = training.trainer().unit_norms();
  result.unit_norms.assign(unit_norms.begin(), unit_norms.end());
  const auto weight_norms = training.trainer().weight_norms();
  result.weight_norms.assign(weight_norms.begin(), weight_norms.end());
  double squares = 0;
  for (const double norm : unit_norms) squares += norm * norm;
  EXPECT_NEAR(std::sqrt(squares), result.norms.back(), 1e-14 * result.norms.back());
  return result;
}

void expect_same(const Result& got, const Result& want) {
  EXPECT_TRUE(tests::same_bits(got.losses, want.losses)) << "loss by step";
  EXPECT_TRUE(tests::same_bits(got.norms, want.norms)) << "gradient norm by step";
  EXPECT_TRUE(tests::same_bits(got.unit_norms, want.unit_norms)) << "gradient norms of units";
  EXPECT_TRUE(tests::same_bits(got.weight_norms, want.weight_norms)) << "norms of weights kept in FP8, by unit";
  EXPECT_EQ(got.hashes, want.hashes);
}

/// Every setting with every other.
std::vector<Settings> all_settings() {
  struct Accumulated {
    const char* how;
    int micro_batches;
  };
  std::vector<Settings> all;
  for (const int data_ranks : {2, 4, 8})
    for (const int tensor : {1, 2})
      for (const char* recipe : {"fp32", "none", "delayed", "current", "block", "mxfp8"})
        for (const int clip : {0, 1})
          for (const auto& [how, micro_batches] : {Accumulated{"full", 1}, {"full", 3}, {"sharded", 1}}) {
            const bool fp32 = recipe == std::string("fp32");
            all.push_back({data_ranks, tensor, fp32 ? "none" : recipe, fp32 ? "fp32" : "bf16", clip, how, micro_batches,
                           clip == 0 ? "gpt2" : "llama"});
          }
  return all;
}

constexpr const char* kOverlap = "overlap: {enable: true}\n";

/// Every value of every setting.
std::vector<Settings> covering_settings() {
  return {
      {2, 1, "none", "fp32", 1, "sharded", 1},
      {2, 1, "delayed", "bf16", 0, "full", 3},
      {4, 1, "none", "fp32", 0, "full", 1, "gpt2"},
      {4, 1, "block", "bf16", 1, "full", 1},
      {4, 1, "current", "bf16", 1, "full", 3},
      {2, 2, "block", "bf16", 0, "sharded", 1},
      {2, 2, "mxfp8", "bf16", 1, "full", 3},
      {8, 1, "none", "fp32", 1, "full", 3},
      {8, 1, "none", "bf16", 0, "full", 1, "gpt2"},
      {8, 1, "delayed", "bf16", 1, "full", 1},
      {8, 1, "mxfp8", "bf16", 0, "full", 3, "gpt2"},
      {4, 2, "none", "bf16", 1, "full", 3, "llama", kOverlap},
      {4, 2, "none", "fp32", 0, "sharded", 1},
      {4, 2, "current", "bf16", 0, "sharded", 1},
      {4, 2, "mxfp8", "bf16", 1, "full", 1, "llama", kOverlap},
      {4, 1, "none", "fp32", 1, "full", 3, "llama", "", 1},
      {4, 1, "delayed", "bf16", 1, "sharded", 1, "llama", "", 2},
      {4, 2, "block", "bf16", 1, "full", 1, "llama", "", 4},
  };
}

/// Those for as many ranks as the program has.
std::vector<Settings> settings_here() {
  std::vector<Settings> all = std::getenv("SHARD8_DATA_RANKS_ALL") != nullptr ? all_settings() : covering_settings();
  std::erase_if(all, [](const Settings& s) { return s.data_ranks * s.tensor != test::world_size(); });
  return all;
}

TEST(DataRanks, EverySplitHasTheSameBits) {
  ASSERT_FALSE(settings_here().empty());
  for (const Settings& s : settings_here()) {
    SCOPED_TRACE(name_of(s));
    const Result whole = train(deck_of(s, s.data_ranks));
    EXPECT_EQ(std::set<double>(whole.losses.begin(), whole.losses.end()).size(), whole.losses.size())
        << "losses of all steps differ";
    for (int shard = 1; shard < s.data_ranks; shard *= 2) {
      if (shard * s.tensor < s.expert) continue;
      SCOPED_TRACE(fmt::format("shard {}", shard));
      expect_same(train(deck_of(s, shard)), whole);
    }
  }
}

// Micro-batches are added after the sum over shards and before that over replicas, so each mesh has bits of its own.
TEST(DataRanks, GradientsSummedInShardsRepeatOnOneMesh) {
  const int ranks = test::world_size();
  const Settings s{ranks, 1, "none", "fp32", 1, "sharded", 3};
  for (int shard = ranks; shard > 1; shard /= 2) {
    SCOPED_TRACE(fmt::format("shard {}", shard));
    const deck::Config config = deck_of(s, shard);
    expect_same(train(config), train(config));
  }
}

}  // namespace
}  // namespace shard8
