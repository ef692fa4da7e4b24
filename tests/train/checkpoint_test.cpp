// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <thread>

#include "tests/train/checkpointed.hpp"
#include "tests/train/decks.hpp"

// Checkpoints as runs write and read them, on one mesh and from each mesh to each other.

namespace shard8 {
namespace {

namespace fs = std::filesystem;
using test::Case;
using test::hashes_of;
using test::Training;

using Hashes = std::vector<test::Hashed>;

/// A barrier in which ranks sleep: they leave the cores to those that train.
void wait_for_all() {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  for (int done = 0; done == 0;) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

/// The first `size` ranks of the program; MPI_COMM_NULL on others.
class FirstRanks {
 public:
  explicit FirstRanks(int size) {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_split(MPI_COMM_WORLD, rank < size ? 0 : MPI_UNDEFINED, rank, &comm_);
  }
  ~FirstRanks() {
    if (comm_ != MPI_COMM_NULL) MPI_Comm_free(&comm_);
    wait_for_all();
  }
  FirstRanks(const FirstRanks&) = delete;
  FirstRanks& operator=(const FirstRanks&) = delete;
  MPI_Comm comm() const { return comm_; }
  bool here() const { return comm_ != MPI_COMM_NULL; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

/// An empty folder for all ranks of the program. Collective.
std::string empty_folder(const std::string& name) {
  const std::string path = "checkpoint_test_np" + std::to_string(test::world_size()) + "/" + name;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) {
    fs::remove_all(path);
    fs::create_directories(path);
  }
  wait_for_all();
  return path;
}

/// A training with its checkpoints. Its manifests name no deck, so that tests may change any key.
struct Job : test::CheckpointedTraining {
  Job(const deck::Config& config, MPI_Comm comm)
      : test::CheckpointedTraining(config, comm, {"shard8 test", "none", {}}) {}
};

void expect_equal(const std::vector<train::StepResult>& results, const std::vector<train::StepResult>& expected) {
  ASSERT_EQ(results.size(), expected.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(results[i].step, expected[i].step);
    EXPECT_EQ(results[i].loss, expected[i].loss) << "step " << expected[i].step;
    EXPECT_EQ(results[i].gradient_norm, expected[i].gradient_norm) << "step " << expected[i].step;
  }
}

constexpr int kSteps = 6, kStop = 3;

/// Recipes, kinds of masters and moments, and ways to write, on the meshes of as many ranks as there are. One rank has
/// every recipe; a mesh of several ranks has two of them and the next mesh the other two.
std::vector<Case> cases() {
  std::vector<Case> all;
  int count = 0;
  const auto add = [&](std::string name, deck::Config config) {
    config.checkpoint.every = 1 + count % 3;
    config.checkpoint.async = count % 4 != 3;
    config.checkpoint.files = count % 2 == 0 ? deck::CheckpointFiles::rank : deck::CheckpointFiles::node;
    name += ", every " + std::to_string(config.checkpoint.every) + (config.checkpoint.async ? "" : ", sync") +
            (config.checkpoint.files == deck::CheckpointFiles::node ? ", a file for each node" : "");
    all.push_back({std::move(name), std::move(config)});
    ++count;
  };
  for (const auto& mesh : test::kResumedMeshes) {
    for (const char* arch : {"llama", "gpt2"}) {
      test::Variant v;
      v.mesh = mesh;
      v.arch = arch;
      v.tied = mesh[1] == 2;
      v.prefetch = mesh[1];
      v.micro_batch = mesh[0] == 1 ? 2 : 0;
      v.compute = mesh[2] == 2 ? "bf16" : "fp32";
      if (test::ranks_of(v) == test::world_size())
        add(test::name_of(v), test::small_deck(v, kSteps, "", arch[0] == 'l' ? ", clip: 0" : ""));
    }
    if (!test::has_ranks_of(mesh)) continue;
    std::size_t number = static_cast<std::size_t>(&mesh - test::kResumedMeshes.data());
    for (const char* recipe : {"delayed", "current", "block", "mxfp8"}) {
      if (number++ % 2 != 0 && test::world_size() > 1) continue;
      Case one = test::resumed_fp8_case(mesh, recipe, count % 2 == 1 ? "gpt2" : "llama", count % 3 == 1, kSteps);
      add(std::move(one.name), std::move(one.config));
    }
  }
  return all;
}

Case delayed_case() {
  for (const auto& mesh : test::kResumedMeshes)
    if (test::has_ranks_of(mesh)) return test::resumed_fp8_case(mesh, "delayed", "llama", false, kSteps);
  return {};
}

// Numbers of entries in the histories, which index them, in a checkpoint whose digests are right.
TEST(Checkpoint, HistoriesOfAnotherNumberOfStepsAreRefused) {
  if (test::world_size() == 2 || test::world_size() == 3) GTEST_SKIP() << "shown on one rank and on four";
  Case one = delayed_case();
  if (one.name.empty()) GTEST_SKIP() << "no mesh has as many ranks";
  constexpr std::int32_t kLeast = std::numeric_limits<std::int32_t>::min();
  constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
  const std::vector<std::array<std::int32_t, 3>> crafted = {
      {-1, kStop + 1, kStop}, {kStop, 0, kStop},         {kStop, kLeast, kStop},        {kStop, kStop + 1, -7},
      {kMost, kStop + 1, 0},  {kStop, kStop + 2, kStop}, {kStop, kStop + 1, kStop + 1},
  };
  for (const auto& entries : crafted) {
    one.config.checkpoint.dir = empty_folder("entries");
    one.config.checkpoint.every = kSteps;
    {
      Job job(one.config, MPI_COMM_WORLD);
      job.train_to(kStop);
      const auto held = job.training.trainer().state().scaling.history_entries();
      std::memcpy(held.data, entries.data(), sizeof(entries));
      ASSERT_TRUE(job.checkpoints->write_now(kStop, 1));
    }
    try {
      Job job(one.config, MPI_COMM_WORLD);
      ADD_FAILURE() << "a run goes on with " << entries[0] << ", " << entries[1] << ", " << entries[2];
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::ExitCode::checkpoint);
      EXPECT_NE(std::string(error.what()).find("fp8_history_entries: element "), std::string::npos) << error.what();
    }
  }
}

TEST(Checkpoint, ARunGoesOnBitForBit) {
  ASSERT_FALSE(cases().empty());
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    deck::Config config = c.config;
    config.checkpoint.dir = empty_folder("same");
    std::vector<train::StepResult> whole;
    Hashes expected;
    {
      Training alone(config, MPI_COMM_WORLD);
      whole = alone.run(0, kSteps);
      expected = hashes_of(alone);
    }
    const std::vector<train::StepResult> begin(whole.begin(), whole.begin() + kStop),
        end(whole.begin() + kStop, whole.end());
    {
      Job first(config, MPI_COMM_WORLD);
      expect_equal(first.train_to(kStop), begin);
      EXPECT_TRUE(first.checkpoints->write_now(kStop, 0)) << first.said;
    }
    config.model.init_seed += 1;  // nothing may come from the initial values
    Job second(config, MPI_COMM_WORLD);
    EXPECT_EQ(second.first, kStop) << second.said;
    expect_equal(second.train_to(kSteps), end);
    second.checkpoints->finish();
    EXPECT_EQ(hashes_of(second.training), expected);
    EXPECT_EQ(second.checkpoints->counts().failed, 0) << second.said;
  }
}

/// What the ranks of a run had that wrote a checkpoint after step 2 and trained on. Empty on other ranks.
struct Written {
  Hashes at_two, at_end;
  std::vector<train::StepResult> after_two;
};

/// The first `ranks` ranks train to step 2, write a checkpoint, and train on to step `last`.
Written write_at_two(deck::Config config, const std::string& folder, int ranks, std::int64_t last) {
  Written written;
  config.checkpoint.dir = folder;
  const FirstRanks first(ranks);
  if (!first.here()) return written;
  Job run(config, first.comm());
  run.train_to(2);
  EXPECT_TRUE(run.checkpoints->write_now(2, 0)) << run.said;
  written.at_two = hashes_of(run.training);
  if (last == 2) return written;
  written.after_two = run.train_to(last);
  written.at_end = hashes_of(run.training);
  return written;
}

/// The first `ranks` ranks go on from the checkpoint and train to step `last`. `same`: with the bits of those that
/// wrote it, since the mesh is the same.
void expect_read(deck::Config config, const std::string& folder, int ranks, std::int64_t last, const Written& written,
                 bool same) {
  config.checkpoint.dir = folder;
  const FirstRanks first(ranks);
  if (!first.here()) return;
  config.model.init_seed += 1;
  Job run(config, first.comm());
  EXPECT_EQ(run.first, 2);
  const Hashes restored = hashes_of(run.training);
  if (!written.at_two.empty()) {
    EXPECT_EQ(restored, written.at_two);
  }
  if (last == 2) return;
  const auto results = run.train_to(last);
  if (same) {
    expect_equal(results, written.after_two);
    EXPECT_EQ(hashes_of(run.training), written.at_end);
  }
  for (std::size_t i = 0; i < written.after_two.size(); ++i)
    EXPECT_NEAR(results[i].loss, written.after_two[i].loss, 2e-6 * written.after_two[i].loss)
        << "step " << results[i].step;
}

int ranks_of(const std::array<int, 3>& mesh) { return mesh[0] * mesh[1] * mesh[2]; }

TEST(Checkpoint, AMeshReadsWhatAnotherOneWrote) {
  const std::vector<std::array<int, 3>> meshes = {{1, 1, 1}, {1, 2, 1}, {1, 1, 2}, {1, 2, 2},
                                                  {1, 4, 1}, {1, 3, 1}, {2, 2, 1}};
  if (test::world_size() < 4) GTEST_SKIP() << "needs four ranks";
  for (const char* recipe : {"none", "delayed", "block"}) {
    const auto config_of = [&](const std::array<int, 3>& mesh) {
      if (recipe == std::string("none")) {
        test::Variant v;
        v.mesh = mesh;
        v.tied = true;
        return test::small_deck(v, kSteps);
      }
      test::Fp8Variant v;
      v.mesh = mesh;
      v.recipe = recipe;
      v.arch = "gpt2";
      return test::fp8_deck(v, kSteps, 1, 12, recipe == std::string("delayed") ? ", amax_history: 2" : "", "");
    };
    for (const auto& from : meshes) {
      // FP8 takes longer, and the boxes of a mesh are the same for all recipes: three meshes write.
      if (recipe != std::string("none") && from != std::array{1, 1, 1} && from != std::array{1, 3, 1} &&
          from != std::array{1, 2, 2})
        continue;
      const std::string folder = empty_folder("meshes");
      const std::int64_t last = recipe == std::string("none") ? 4 : 2;
      const Written written = write_at_two(config_of(from), folder, ranks_of(from), last);
      for (const auto& to : meshes) {
        SCOPED_TRACE(fmt::format("{}: {} to {}", recipe, fmt::join(from, "x"), fmt::join(to, "x")));
        expect_read(config_of(to), folder, ranks_of(to), last, written, false);
      }
    }
  }
}

// Twelve experts, each held by one of `expert` ranks and sharded over the others of shard x tensor.
TEST(Checkpoint, RanksWithOtherExpertsReadIt) {
  if (test::world_size() < 4) GTEST_SKIP() << "needs four ranks";
  struct Mesh {
    std::array<int, 3> ranks;
    int expert;
  };
  const std::vector<Mesh> meshes = {{{1, 1, 1}, 1}, {{1, 2, 1}, 2}, {{1, 1, 2}, 2}, {{1, 3, 1}, 3},
                                    {{1, 4, 1}, 1}, {{1, 4, 1}, 2}, {{1, 2, 2}, 4}, {{2, 2, 1}, 2}};
  for (const char* recipe : {"none", "delayed"}) {
    const bool fp8 = recipe != std::string("none");
    const auto config_of = [&](const Mesh& mesh) {
      deck::Config config;
      if (fp8) {
        test::Fp8Variant v;
        v.mesh = mesh.ranks;
        v.recipe = recipe;
        v.overlap = "moe: {experts: 12, ffn: 128, dense_layers: 1}\n";
        config = test::fp8_deck(v, kSteps, 2, 12, ", amax_history: 2");
      } else {
        test::Variant v;
        v.mesh = mesh.ranks;
        config = test::small_deck(v, kSteps, "moe: {experts: 12, ffn: 40, balance: 0.01}\n");
      }
      config.mesh.expert = mesh.expert;
      return config;
    };
    for (const Mesh& from : meshes) {
      if (fp8 && from.expert != 2 && from.expert != 3) continue;
      const std::string folder = empty_folder("experts");
      const Written written = write_at_two(config_of(from), folder, ranks_of(from.ranks), 4);
      for (const Mesh& to : meshes) {
        const bool same = to.ranks == from.ranks && to.expert == from.expert;
        if (fp8 && !same && to.expert == from.expert) continue;
        SCOPED_TRACE(fmt::format("{}: {} with expert {} to {} with expert {}", recipe, fmt::join(from.ranks, "x"),
                                 from.expert, fmt::join(to.ranks, "x"), to.expert));
        expect_read(config_of(to), folder, ranks_of(to.ranks), fp8 && !same ? 2 : 4, written, same);
      }
    }
  }
}

/// Changes one byte of a file.
void flip(const fs::path& path, std::uintmax_t offset) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(offset));
  const int byte = file.get();
  file.seekp(static_cast<std::streamoff>(offset));
  file.put(static_cast<char>(byte ^ 0x10));
}

TEST(Checkpoint, DamageIsFoundAndTheCheckpointBeforeIsTaken) {
  if (test::world_size() > 2) GTEST_SKIP() << "shown on one and two ranks";
  test::Variant v;
  v.mesh = {1, test::world_size(), 1};
  deck::Config config = test::small_deck(v, kSteps);
  config.checkpoint.dir = empty_folder("damage");
  Hashes at_two;
  {
    Job run(config, MPI_COMM_WORLD);
    run.train_to(2);
    EXPECT_TRUE(run.checkpoints->write_now(2, 0));
    at_two = hashes_of(run.training);
    run.train_to(4);
    EXPECT_TRUE(run.checkpoints->write_now(4, 0));
  }
  const fs::path newest = fs::path(config.checkpoint.dir) / "step_00000004";
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (const char* name : {"manifest.json", "shard_r0000.h5"}) {
    const auto size = fs::file_size(newest / name);
    for (int i = 0; i < 12; ++i) {
      const std::uintmax_t offset = size * static_cast<std::uintmax_t>(i) / 12 + 7 * static_cast<std::uintmax_t>(i) % 5;
      SCOPED_TRACE(fmt::format("{}, byte {}", name, offset));
      MPI_Barrier(MPI_COMM_WORLD);
      if (rank == 0) flip(newest / name, offset);
      MPI_Barrier(MPI_COMM_WORLD);
      {
        Job run(config, MPI_COMM_WORLD);
        EXPECT_EQ(run.first, 2);
        EXPECT_EQ(hashes_of(run.training), at_two);
        if (rank == 0) {
          EXPECT_NE(run.said.find("step_00000004"), std::string::npos) << run.said;
        }
      }
      MPI_Barrier(MPI_COMM_WORLD);
      if (rank == 0) flip(newest / name, offset);
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
  Job run(config, MPI_COMM_WORLD);
  EXPECT_EQ(run.first, 4) << run.said;
}

}  // namespace
}  // namespace shard8
