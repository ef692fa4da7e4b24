// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "train/inputs.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "comm/agree.hpp"
#include "deck/load.hpp"
#include "tests/io/files.hpp"
#include "tests/io/safetensors_bytes.hpp"

// What `shard8 check` and `shard8 run` say of initial weights: one process and all ranks say the same.

namespace shard8 {
namespace {

using Texts = std::vector<std::string>;

const std::string kCases = SHARD8_SOURCE_DIR "/tests/cases/";

/// How opening ended.
struct Outcome {
  int code = 0;
  std::string message;  ///< the error's
  Texts said;
  std::string source;  ///< TensorFile::spec()
};

template <class Open>
Outcome outcome_of(Open&& open) {
  Outcome out;
  try {
    out.source = open([&](const std::string& text) { out.said.push_back(text); })->spec();
  } catch (const base::Error& error) {
    out.code = base::to_int(error.code());
    out.message = error.what();
  }
  return out;
}

class InitialWeights : public testing::Test {
 protected:
  InitialWeights() : world_(MPI_COMM_WORLD, "world", comm::Waiting::yield, nullptr) {}

  /// Opens weights by a deck of tests/cases in one process, and by all ranks, and expects the same of both.
  Outcome open(const std::string& deck, const std::string& init_file, Texts overrides = {}) {
    overrides.push_back("model.init_file=" + init_file);
    overrides.push_back("mesh.shard=" + std::to_string(world_.size()));
    const deck::Config config = deck::load(kCases + deck, overrides).config;
    const Outcome alone =
        outcome_of([&](const auto& say) { return train::open_initial_weights(io_, config.model, say); });
    const auto setup = train::Setup::make(config, world_.rank(), 1);
    const Outcome together =
        outcome_of([&](const auto& say) { return train::open_initial_weights(world_, io_, setup, say); });
    EXPECT_EQ(alone.code, together.code) << init_file;
    EXPECT_EQ(alone.message, together.message);
    EXPECT_EQ(alone.source, together.source);
    EXPECT_EQ(first() ? alone.said : Texts{}, together.said);
    return alone;
  }

  void expect_refused(const std::string& deck, const std::string& init_file, const Texts& parts,
                      const Texts& overrides = {}, int code = 2) {
    const Outcome out = open(deck, init_file, overrides);
    EXPECT_EQ(out.code, code) << init_file << ": " << out.message;
    for (const auto& part : parts)
      EXPECT_NE(out.message.find(part), std::string::npos) << "no '" << part << "' in: " << out.message;
  }

  void expect_good(const std::string& deck, const std::string& init_file, const Texts& overrides = {}) {
    const Outcome out = open(deck, init_file, overrides);
    EXPECT_EQ(out.code, 0) << out.message;
    EXPECT_EQ(out.said, Texts{});
  }

  bool first() const { return world_.rank() == 0; }
  void barrier() const { MPI_Barrier(MPI_COMM_WORLD); }

  io::IoThread io_;
  comm::Communicator world_;
};

TEST_F(InitialWeights, EachCase) {
  const std::string tied = "model.tie_embeddings=true";
  expect_refused(
      "biases/llama.yaml", kCases + "biases/hf_bias_noconfig",
      {"model.safetensors: has 6 tensors that a llama does not have", "'model.layers.0.self_attn.k_proj.bias'"});
  expect_good("biases/llama.yaml", kCases + "biases/hf_bias_removed");
  expect_refused("fp8_weights/llama.yaml", kCases + "fp8_weights/hf_fp8",
                 {"config.json' describes another model", "quantization_config has quant_method = \"fp8\"", "bf16"});
  expect_good("hdf5_bf16_bits/llama.yaml", kCases + "hdf5_bf16_bits/f32.h5:/init");
  expect_good("hdf5_bf16_bits/llama.yaml", kCases + "hdf5_bf16_bits/bf16_uint16.h5:/init");
  expect_refused("head_alias/gpt2.yaml", kCases + "head_alias/g_alias_heads",
                 {"num_attention_heads = 8, but model.heads = 4: set model.heads to 8"});
  expect_good("head_alias/gpt2.yaml", kCases + "head_alias/g_alias_heads", {"model.heads=8"});
  expect_refused("lfs_pointer/llama.yaml", kCases + "lfs_pointer/lfs", {"git lfs pull"});
  expect_good("tied_other_head/llama.yaml", kCases + "tied_other_head/hf_tied", {tied});
  expect_refused("tied_other_head/llama.yaml", kCases + "tied_other_head/hf_tied_other_head",
                 {"'lm_head.weight' is not a copy of 'model.embed_tokens.weight'"}, {tied});
}

TEST_F(InitialWeights, TheChoiceOfAFileIsSaid) {
  const std::string folder = kCases + "file_and_index/both";
  const Outcome out = open("file_and_index/llama.yaml", folder);
  EXPECT_EQ(out.code, 0) << out.message;
  EXPECT_EQ(out.source, folder + "/model.safetensors");
  ASSERT_EQ(out.said.size(), 1u);
  EXPECT_NE(out.said[0].find("model.safetensors.index.json beside it is not"), std::string::npos) << out.said[0];
}

/// A copy of the weights without biases, in a folder that all ranks see.
class CopiedWeights : public InitialWeights {
 protected:
  CopiedWeights() : folder_(testing::TempDir() + "shard8_initial_weights"), file_(folder_ + "/model.safetensors") {
    if (first()) {
      std::filesystem::remove_all(folder_);
      std::filesystem::create_directories(folder_);
      std::filesystem::copy(kCases + "biases/hf_bias_removed", folder_);
      std::filesystem::permissions(file_, std::filesystem::perms::owner_all);
    }
    barrier();
  }
  ~CopiedWeights() override {
    barrier();
    if (first()) std::filesystem::remove_all(folder_);
  }
  /// Rank 0 changes the folder.
  template <class Action>
  void change(Action&& action) {
    barrier();
    if (first()) action();
    barrier();
  }

  std::string folder_, file_;
};

// What io reports as a failure is the fault of the file that the deck names.
TEST_F(CopiedWeights, WhatCannotBeReadHasCode2) {
  const std::string deck = "biases/llama.yaml";
  const auto text = [&](const std::string& path, const std::string& bytes) {
    change([&] { test::write_bytes(path, bytes); });
  };
  expect_good(deck, folder_);
  text(folder_ + "/w.h5", "no HDF5 file");
  expect_refused(deck, folder_ + "/w.h5:/init", {"model.init_file: '", "w.h5': not an HDF5 file"});
  text(folder_ + "/index.json", "[]");
  change([&] { std::filesystem::copy_file(folder_ + "/index.json", folder_ + "/other.safetensors.index.json"); });
  expect_refused(deck, folder_ + "/other.safetensors.index.json",
                 {"model.init_file: '", "not an index of safetensors"});
  change([&] { std::filesystem::resize_file(file_, 1000); });
  expect_refused(deck, folder_, {"model.init_file: '", "not a valid .safetensors file"});
  text(file_, "12345678");
  expect_refused(deck, file_, {"model.init_file: '", "not a valid .safetensors file: it says"});
  text(folder_ + "/config.json", "[");
  change([&] {
    std::filesystem::copy_file(kCases + "biases/hf_bias_removed/model.safetensors", file_,
                               std::filesystem::copy_options::overwrite_existing);
  });
  expect_refused(deck, folder_, {"config.json': not a configuration of Hugging Face"});
  change([&] {
    std::filesystem::remove(folder_ + "/config.json");
    std::filesystem::create_symlink("nowhere.json", folder_ + "/config.json");
  });
  expect_refused(deck, folder_, {"config.json': the link leads to 'nowhere.json', which is not there"});
}

// Tensors that are no part of a model are passed over, but not in silence.
TEST_F(CopiedWeights, OtherTensorsAreNamed) {
  change([&] {
    test::write_bytes(folder_ + "/extra.safetensors",
                      test::safetensors("{" + test::entry("optimizer.step", "I64", "1", 0, 8) + "," +
                                            test::entry("score.weight", "F32", "2", 8, 16) + "}",
                                        "1234567812345678"));
    test::write_bytes(folder_ + "/all.safetensors.index.json",
                      R"({"weight_map": {"model.norm.weight": "model.safetensors",
                                         "optimizer.step": "extra.safetensors"}})");
  });
  const Outcome out = open("biases/llama.yaml", folder_ + "/all.safetensors.index.json");
  EXPECT_EQ(out.code, 0) << out.message;
  ASSERT_EQ(out.said.size(), 1u);
  EXPECT_NE(out.said[0].find("2 tensors are not read, since no part of the model has such a name: 'optimizer.step', "
                             "'score.weight'"),
            std::string::npos)
      << out.said[0];
}

// A checkpoint that cannot be used has the code of checkpoints.
TEST_F(CopiedWeights, CheckpointsHaveCode4) {
  const std::string checkpoint = folder_ + "/checkpoints/step_00000003";
  change([&] {
    std::filesystem::remove(file_);
    std::filesystem::create_directories(checkpoint);
    test::write_bytes(checkpoint + "/manifest.json", "{}");
  });
  expect_refused("biases/llama.yaml", checkpoint, {"manifest.json"}, {}, 4);
  expect_refused("biases/llama.yaml", folder_, {"none of the 1 checkpoints here can be used"}, {}, 4);
}

// A file that only one rank cannot read: the others learn it.
TEST_F(CopiedWeights, AllRanksAgree) {
  if (world_.size() == 1) GTEST_SKIP() << "one rank";
  const std::string mine = world_.rank() == 1 ? folder_ + "/nothere.safetensors" : file_;
  const Texts overrides = {"model.init_file=" + file_, "mesh.shard=" + std::to_string(world_.size())};
  deck::Config config = deck::load(kCases + "biases/llama.yaml", overrides).config;
  config.model.init_file = mine;
  const auto setup = train::Setup::make(config, world_.rank(), 1);
  const Outcome out = outcome_of([&](const auto& say) { return train::open_initial_weights(world_, io_, setup, say); });
  EXPECT_EQ(out.code, 2);
  EXPECT_TRUE(out.message.starts_with("rank 1: ")) << out.message;
}

}  // namespace
}  // namespace shard8
