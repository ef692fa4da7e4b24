// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "checkpoint/inspect.hpp"
#include "checkpoint/reader.hpp"
#include "tests/train/decks.hpp"
#include "tests/train/training.hpp"
#include "train/checkpoints.hpp"
#include "train/stored_weights.hpp"
#include "train/training_file.hpp"

// `shard8 ckpt verify` finds values that do not follow from the masters, in files whose digests are right.

namespace shard8 {
namespace {

namespace fs = std::filesystem;
using checkpoint::Checkpoint;

/// The deck as runs write it to manifests.
std::vector<checkpoint::ManifestKey> keys_of(const deck::Config& config) {
  std::vector<checkpoint::ManifestKey> keys;
  for (const deck::Echo& e : deck::load_text(deck::to_yaml(config), "echo.yaml").echo)
    keys.push_back({e.group + "." + e.key, deck::value_text(e), std::string(deck::to_string(e.origin))});
  return keys;
}

/// Trains two steps, writes a checkpoint to an empty folder, and returns it with the hashes of its tensors.
Checkpoint trained(deck::Config config, const std::string& folder, std::vector<test::Hashed>& hashes) {
  const train::Say quiet = [](const std::string&) {};
  fs::remove_all(folder);
  fs::create_directories(folder);
  config.checkpoint.dir = folder;
  test::Training training(config, MPI_COMM_WORLD);
  const train::CheckpointFolder place(training.mesh().world, folder, quiet);
  train::RunDescription run{"shard8 test", "none", keys_of(config)};
  run.identity.id = train::new_run_id(training.mesh().world);
  train::Checkpoints checkpoints(training.assembly(), place, run, nullptr, quiet);
  training.run(0, 2);
  EXPECT_TRUE(checkpoints.write_now(2, 0));
  hashes = test::hashes_of(training);
  return checkpoint::open_checkpoint(folder, quiet);
}

/// Changes the bytes of a box.
using Edit = std::function<void(const io::ShardBox&, std::vector<std::byte>&)>;

/// A copy of a checkpoint in another folder, with changed values and the right digests.
Checkpoint changed(const Checkpoint& from, const Edit& edit) {
  io::IoThread io;
  Checkpoint to{from.folder + "_changed", from.manifest};
  fs::remove_all(to.folder);
  fs::create_directories(to.folder);
  for (std::size_t f = 0; f < from.manifest.files.size(); ++f) {
    const io::ShardReader reader = checkpoint::open_shard(from.folder, from.manifest, f);
    io::ShardWriter writer(io, to.folder + "/" + from.manifest.files[f].file, reader.identity(), reader.boxes());
    for (std::size_t b = 0; b < reader.boxes().size(); ++b) {
      const io::ShardBox& box = reader.boxes()[b];
      std::vector<std::byte> bytes(box.bytes());
      reader.read(b, box.box, bytes.data(), box.box.cols * box.element_bytes);
      edit(box, bytes);
      writer.write(b, 0, bytes);
    }
    to.manifest.files[f] = writer.finish();
  }
  checkpoint::write_manifest(to.folder, to.manifest);
  return to;
}

std::vector<std::string> problems_of(const Checkpoint& one) {
  EXPECT_TRUE(checkpoint::problems_of_files(one).empty());
  return train::problems_of_values(one, checkpoint::Masters(one), train::saved_config(one));
}

/// Flips bits of one element of a tensor, or sets them, and expects a problem whose text has `part`.
void expect_found(const Checkpoint& good, const std::string& name, const std::string& content, std::int64_t row,
                  std::int64_t col, std::uint32_t bits, const std::string& part, bool set = false) {
  SCOPED_TRACE(name + ", " + content);
  bool done = false;
  const Checkpoint bad = changed(good, [&](const io::ShardBox& box, std::vector<std::byte>& bytes) {
    if (box.name != name || box.content != content) return;
    if (io::intersect(box.box, {row, 1, col, 1}).empty()) return;
    done = true;
    const std::int64_t at = (row - box.box.row0) * box.box.cols + col - box.box.col0;
    for (std::int64_t i = 0; i < box.element_bytes; ++i) {
      std::byte& byte = bytes[static_cast<std::size_t>(at * box.element_bytes + i)];
      const auto mask = static_cast<std::byte>(bits >> (8 * i));
      byte = set ? byte | mask : byte ^ mask;
    }
  });
  ASSERT_TRUE(done) << "there is no such element";
  const auto problems = problems_of(bad);
  ASSERT_FALSE(problems.empty());
  EXPECT_NE(problems[0].find(part), std::string::npos) << problems[0];
}

struct Recipe {
  const char* name;
  const char* arch;
  const char* compute;
  bool split;  ///< masters in two halves
};
void PrintTo(const Recipe& r, std::ostream* out) { *out << r.name << ' ' << r.arch; }

class StoredWeights : public testing::TestWithParam<Recipe> {
 protected:
  void SetUp() override {
    test::Fp8Variant v;
    v.recipe = GetParam().name;
    v.arch = GetParam().arch;
    v.compute = GetParam().compute;
    const bool delayed = v.recipe == std::string("delayed");
    config_ = test::fp8_deck(v, 4, 1, 1, delayed ? ", amax_history: 3" : "",
                             GetParam().split ? ", master: bf16_remainder" : "");
    const std::string folder = fmt::format("stored_weights_{}_{}_{}", v.recipe, v.arch, v.compute);
    good_ = trained(config_, folder, hashes_);
  }

  deck::Config config_;
  std::vector<test::Hashed> hashes_;
  Checkpoint good_;
};

TEST_P(StoredWeights, FollowFromTheMasters) {
  for (const std::string& problem : problems_of(good_)) ADD_FAILURE() << problem;
  // What `ckpt show` prints are the hashes of the state.
  std::vector<test::Hashed> shown;
  for (const auto& t : checkpoint::summarise(good_, true))
    shown.push_back({t.tensor.name + ", " + t.tensor.content, *t.hash});
  EXPECT_EQ(shown, hashes_);
}

TEST_P(StoredWeights, ChangesAreFound) {
  const std::string recipe = GetParam().name;
  const bool gpt2 = GetParam().arch == std::string("gpt2");
  const std::string weight = gpt2 ? "transformer.h.0.attn.c_attn.weight" : "model.layers.0.self_attn.k_proj.weight";
  const std::string norm = gpt2 ? "transformer.ln_f.weight" : "model.norm.weight";
  const std::string narrow = gpt2 ? "transformer.h.0.mlp.c_proj.weight" : "model.layers.0.mlp.down_proj.weight";
  const int high = GetParam().split ? 0 : 16;  // the bits of bf16 in a master
  expect_found(good_, weight, "fp8_rowwise", 5, 200, 0x01, weight + ", fp8_rowwise: element (5, 200) is 0x");
  expect_found(good_, narrow, "fp8_rowwise", 255, 255, 0x80, narrow + ", fp8_rowwise: element (255, 255) is 0x");
  // A master that is twice, or half, as large.
  expect_found(good_, weight, "master", 7, 9, 0x0080u << high, weight + ", fp8_");
  expect_found(good_, norm, "master", 3, 0, 0x7f80u << high, norm + ", master: element (3, 0) is ", true);
  if (recipe == "delayed" || recipe == "current") {
    expect_found(good_, weight, "fp8_rowwise_scale_inv", 0, 0, 0x1000, "fp8_");
    const std::int64_t weights = recipe == "delayed" ? 1 : 0;
    expect_found(good_, "scaling_state", "fp8_scale", weights, 2, 1, fmt::format("element ({}, 2) is ", weights));
  } else {
    expect_found(good_, weight, "fp8_rowwise_scale_inv", 1, 1, 1, "fp8_rowwise_scale_inv: element (1, 1) has the bits");
  }
  if (recipe == "delayed")  // 3 entries: of the initial weights and of two steps, in rows 3 to 5
    expect_found(good_, "scaling_state", "fp8_amax_history", 5, 3, 1, "fp8_amax_history: element (5, 3) has the bits");
  if (recipe == "mxfp8") {
    expect_found(good_, weight, "fp8_columnwise", 70, 30, 0x02, "fp8_columnwise: element (70, 30) is 0x");
    expect_found(good_, weight, "fp8_columnwise_scale_inv", 4, 4, 1, "fp8_columnwise_scale_inv: element (4, 4)");
  }
}

/// Each expert's weights have a scale of their own, which follows from its own masters.
TEST(StoredExperts, FollowFromTheMasters) {
  for (const char* recipe : {"delayed", "current", "block", "mxfp8"}) {
    SCOPED_TRACE(recipe);
    test::Fp8Variant v;
    v.recipe = recipe;
    v.overlap = "moe: {experts: 3, experts_per_token: 2, ffn: 128, dense_layers: 1}\n";
    const bool delayed = v.recipe == std::string("delayed");
    std::vector<test::Hashed> hashes;
    const Checkpoint good = trained(test::fp8_deck(v, 4, 2, 1, delayed ? ", amax_history: 3" : ""),
                                    fmt::format("stored_experts_{}", recipe), hashes);
    for (const std::string& problem : problems_of(good)) ADD_FAILURE() << problem;
    const std::string weight = "model.layers.1.block_sparse_moe.experts.2.w2.weight";
    expect_found(good, weight, "fp8_rowwise", 5, 100, 0x01, weight + ", fp8_rowwise: element (5, 100) is 0x");
    expect_found(good, weight, "master", 7, 9, 0x00800000u, weight + ", fp8_");
    if (std::string(recipe) == "mxfp8" || std::string(recipe) == "block") continue;
    expect_found(good, weight, "fp8_rowwise_scale_inv", 0, 0, 0x10000,
                 "fp8_");  // by 1 %: values of bf16 are so far apart
    // Behind the inputs of two layers, in the order of weights: 8 of linears, 3 of fc1, 2 of fc2.
    const std::int64_t place = (delayed ? 8 : 0) + 8 + 3 + 2;
    expect_found(good, "scaling_state", "fp8_scale", place, 0, 1, ", 13) is ");
    if (delayed)  // the last of three entries
      expect_found(good, "scaling_state", "fp8_amax_history", 3 * 8 + 2 * 14 + 13, 0, 1, ", 13) has the bits");
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, StoredWeights,
    testing::Values(Recipe{"delayed", "llama", "bf16", false}, Recipe{"delayed", "gpt2", "fp32", false},
                    Recipe{"current", "llama", "fp32", false}, Recipe{"current", "gpt2", "bf16", true},
                    Recipe{"block", "llama", "bf16", true}, Recipe{"block", "gpt2", "fp32", false},
                    Recipe{"mxfp8", "llama", "bf16", false}, Recipe{"mxfp8", "gpt2", "bf16", true}));

}  // namespace
}  // namespace shard8
