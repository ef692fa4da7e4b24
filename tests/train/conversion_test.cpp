// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include "tensor/float8.hpp"
#include "tensor/transfer.hpp"
#include "tests/train/checkpointed.hpp"
#include "tests/train/decks.hpp"
#include "train/state.hpp"
#include "train/training_file.hpp"

// Restarts with checkpoint.allow_changes: what the deck keeps in another dtype or recipe is converted.

namespace shard8 {
namespace {

namespace fs = std::filesystem;
using checkpoint::Content;
using test::CheckpointedTraining;
using test::hashes_of;

/// The folder of this test, empty. Collective.
std::string empty_folder(const std::string& name) {
  const std::string path = "conversion_test_np" + std::to_string(test::world_size()) + "/" + name;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) {
    fs::remove_all(path);
    fs::create_directories(path);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  return path;
}

/// Writes a checkpoint of a training to an empty folder, and returns it.
std::string written(CheckpointedTraining& run) {
  EXPECT_TRUE(run.checkpoints->write_now(run.first, 0)) << run.said;
  return run.folder.directory().folder_of(run.first);
}

deck::Config restarting(deck::Config config, const std::string& from, const std::string& to) {
  config.checkpoint.restart = from;
  config.checkpoint.dir = empty_folder(to);
  config.checkpoint.allow_changes = true;
  config.model.init_seed += 1;  // nothing may come from the initial values
  return config;
}

/// The hashes of tensors with this content.
std::vector<test::Hashed> hashes_of(CheckpointedTraining& run, Content content) {
  std::vector<test::Hashed> some;
  const std::string end = ", " + std::string(name_of(content));
  for (const test::Hashed& h : hashes_of(run.training))
    if (h.label.ends_with(end)) some.push_back(h);
  EXPECT_FALSE(some.empty());
  return some;
}

std::vector<std::byte> bytes_of(CheckpointedTraining& run, Content content) {
  std::vector<std::byte> all;
  for (const auto& t : train::state_tensors(run.training.setup(), run.training.trainer().state())) {
    if (t.content != content) continue;
    for (const auto& part : t.parts) {
      const std::size_t first = all.size();
      all.resize(first + part.local.bytes());
      tensor::to_host(run.training.exec(), all.data() + first, part.local);
    }
  }
  return all;
}

deck::Config small_config(const char* arch) {
  test::Variant v;
  v.mesh = {1, test::world_size(), 1};
  v.arch = arch;
  v.compute = "bf16";
  return test::small_deck(v, 6);
}

TEST(Conversion, OfMoments) {
  for (const char* arch : {"llama", "gpt2"}) {  // gpt2 stores matrices transposed
    deck::Config config = small_config(arch);
    config.checkpoint.dir = empty_folder("fp32");
    CheckpointedTraining first(config, MPI_COMM_WORLD);
    first.train_to(2);
    const std::string fp32 = written(first);

    deck::Config low = restarting(config, fp32, "bf16");
    low.optimizer.moments = deck::FloatType::bf16;
    CheckpointedTraining second(low, MPI_COMM_WORLD);
    EXPECT_EQ(second.first, 2);
    const std::string bf16 = written(second);
    deck::Config high = restarting(config, bf16, "again");
    CheckpointedTraining third(high, MPI_COMM_WORLD);
    for (const Content content : {Content::exp_avg, Content::exp_avg_sq}) {
      const auto wide = bytes_of(first, content), narrow = bytes_of(second, content), again = bytes_of(third, content);
      ASSERT_EQ(wide.size(), 2 * narrow.size());
      ASSERT_EQ(again.size(), wide.size());
      int wrong = 0;
      for (std::size_t i = 0; i < narrow.size() / 2; ++i) {
        float before = 0, after = 0;
        tensor::BFloat16 rounded;
        std::memcpy(&before, wide.data() + 4 * i, 4);
        std::memcpy(&rounded, narrow.data() + 2 * i, 2);
        std::memcpy(&after, again.data() + 4 * i, 4);
        wrong += rounded.bits != tensor::BFloat16(before).bits || after != static_cast<float>(rounded);
      }
      EXPECT_EQ(wrong, 0) << arch << ", " << name_of(content);
    }
    EXPECT_EQ(hashes_of(third, Content::master), hashes_of(first, Content::master));
  }
}

TEST(Conversion, OfMastersIsExact) {
  for (const char* arch : {"llama", "gpt2"}) {
    deck::Config config = small_config(arch);
    config.checkpoint.dir = empty_folder("fp32");
    CheckpointedTraining first(config, MPI_COMM_WORLD);
    first.train_to(2);
    deck::Config low = restarting(config, written(first), "halves");
    low.optimizer.master = deck::Master::bf16_remainder;
    CheckpointedTraining second(low, MPI_COMM_WORLD);
    EXPECT_EQ(second.first, 2);
    CheckpointedTraining third(restarting(config, written(second), "again"), MPI_COMM_WORLD);
    EXPECT_EQ(hashes_of(third.training), hashes_of(first.training)) << arch;
    // And the halves are those that the training itself makes of the same masters.
    low.checkpoint.restart = deck::CheckpointConfig::kNoRestart;
    low.checkpoint.dir = empty_folder("fresh");
    low.model.init_seed = config.model.init_seed;
    CheckpointedTraining fresh(low, MPI_COMM_WORLD);
    config.checkpoint.dir = empty_folder("start");
    CheckpointedTraining start(config, MPI_COMM_WORLD);
    deck::Config from_start = restarting(config, written(start), "halves of the start");
    from_start.optimizer.master = deck::Master::bf16_remainder;
    CheckpointedTraining halves(from_start, MPI_COMM_WORLD);
    EXPECT_EQ(hashes_of(halves.training), hashes_of(fresh.training)) << arch;
  }
}

struct Recipe {
  const char* name;
  const char* weights;
};

deck::Config recipe_config(const Recipe& r) {
  test::Fp8Variant v;
  v.mesh = {1, test::world_size(), 1};
  v.arch = "gpt2";
  v.recipe = r.name;
  v.weights = r.weights;
  return test::fp8_deck(v, 4, 1, 2);
}

/// At step 0 nothing but the masters is needed: with another recipe the state is that of a training which starts with
/// it, and so are its steps.
TEST(Conversion, OfRecipesIsAStartFromTheMasters) {
  const Recipe recipes[] = {{"none", "fp8"},  {"delayed", "fp8"}, {"delayed", "bf16"}, {"current", "fp8"},
                            {"block", "fp8"}, {"block", "bf16"},  {"mxfp8", "fp8"}};
  std::vector<std::string> saved;
  for (const Recipe& r : recipes) {
    deck::Config config = recipe_config(r);
    config.checkpoint.dir = empty_folder(std::string("from_") + r.name + "_" + r.weights);
    CheckpointedTraining run(config, MPI_COMM_WORLD);
    saved.push_back(written(run));
  }
  for (std::size_t to = 0; to < std::size(recipes); ++to) {
    const deck::Config config = recipe_config(recipes[to]);
    test::Training fresh(config, MPI_COMM_WORLD);
    const auto expected = hashes_of(fresh);
    const double loss = to % 3 == 1 ? fresh.run(0, 1).front().loss : 0;
    for (std::size_t from = 0; from < std::size(recipes); ++from) {
      if (from == to) continue;
      SCOPED_TRACE(std::string(recipes[from].name) + " " + recipes[from].weights + " to " + recipes[to].name + " " +
                   recipes[to].weights);
      CheckpointedTraining run(restarting(config, saved[from], "to"), MPI_COMM_WORLD);
      EXPECT_EQ(hashes_of(run.training), expected);
      if (loss != 0) {
        EXPECT_EQ(run.train_to(1).front().loss, loss);
      }
    }
  }
}

/// The same bytes come from the masters in every step, except with delayed scaling, whose histories begin anew.
TEST(Conversion, OfTheWayWeightsAreKeptGoesOnBitForBit) {
  for (const char* recipe : {"current", "block", "mxfp8"}) {
    for (const bool from_fp8 : {true, false}) {
      SCOPED_TRACE(std::string(recipe) + (from_fp8 ? " fp8 to bf16" : " bf16 to fp8"));
      deck::Config config = recipe_config({recipe, from_fp8 ? "fp8" : "bf16"});
      const deck::Config other = recipe_config({recipe, from_fp8 ? "bf16" : "fp8"});
      config.checkpoint.dir = empty_folder("from");
      CheckpointedTraining first(config, MPI_COMM_WORLD);
      first.train_to(1);
      const std::string saved = written(first);
      const auto expected = first.train_to(3);
      CheckpointedTraining second(restarting(other, saved, "to"), MPI_COMM_WORLD);
      const auto results = second.train_to(3);
      ASSERT_EQ(results.size(), expected.size());
      for (std::size_t i = 0; i < results.size(); ++i) {
        EXPECT_EQ(results[i].loss, expected[i].loss);
        EXPECT_EQ(results[i].gradient_norm, expected[i].gradient_norm);
      }
      EXPECT_EQ(hashes_of(second, Content::master), hashes_of(first, Content::master));
    }
  }
}

}  // namespace
}  // namespace shard8
