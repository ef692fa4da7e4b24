// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <ctime>
#include <map>

#include "checkpoint/directory.hpp"
#include "checkpoint/manifest.hpp"
#include "deck/load.hpp"
#include "train/state.hpp"
#include "train/training_file.hpp"

// A checkpoint of 4,096 ranks, of which no file exists: ranks are simulated by their lists of persistent tensors in
// measuring arenas.

namespace shard8::train {
namespace {

using checkpoint::StateTensor;

/// Of the cores, since `begin`: time in which other processes have them does not count.
double seconds_since(std::clock_t begin) { return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC; }

deck::Config large_deck(const std::string& recipe, const base::Extents& mesh) {
  std::vector<std::string> overrides{"data.batch=4096", "fp8.recipe=" + recipe};
  for (const base::Axis axis : base::kAxes)
    overrides.push_back("mesh." + std::string(name_of(axis)) + "=" + std::to_string(mesh[axis]));
  return deck::load(std::string(SHARD8_SOURCE_DIR) + "/inputs/plan/llama3_70b.yaml", overrides).config;
}

/// A rank of a mesh: its persistent tensors, without memory.
struct SimulatedRank {
  SimulatedRank(const deck::Config& config, int rank)
      : setup(Setup::make(config, rank, 1)),
        state(setup, tensor::ArenaSet::measure()),
        tensors(state_tensors(setup, state)) {}
  Setup setup;
  State state;
  std::vector<StateTensor> tensors;
};

std::vector<io::ShardBox> boxes_of(const deck::Config& config, int rank) {
  const SimulatedRank simulated(config, rank);
  std::vector<io::ShardBox> boxes;
  for (const StateTensor& t : simulated.tensors) {
    if (!t.counts(simulated.setup.place)) continue;
    for (const auto& part : t.parts) {
      io::ShardBox box;
      box.name = t.name;
      box.content = checkpoint::name_of(t.content);
      box.shape = t.extents();
      box.box = part.box;
      boxes.push_back(std::move(box));
    }
  }
  return boxes;
}

/// Plans what `rank` of `mesh` reads. Returns the number of files that it opens.
std::size_t plan_restart(const deck::Config& saved, const deck::Config& now, int rank) {
  const base::Extents shape = saved.mesh.extents();
  std::vector<std::string> names;
  for (int r = 0; r < shape.ranks(); ++r) names.push_back(checkpoint::rank_file(r));
  std::map<std::size_t, std::vector<io::ShardBox>> files;
  const SimulatedRank own(now, rank);
  checkpoint::BoxIndex index(
      names, shape.ranks(),
      [&](std::size_t f) -> const std::vector<io::ShardBox>& {
        return files[f] = boxes_of(saved, static_cast<int>(f));
      },
      likely_ranks(own.setup, shape));
  for (const StateTensor& t : own.tensors) {
    const std::string content(checkpoint::name_of(t.content));
    for (const auto& part : t.parts) {
      std::int64_t found = 0;
      for (const auto& place : index.find(t.name, content, t.extents(), part.box))
        found += io::intersect(files[place.file][place.box].box, part.box).count();
      EXPECT_EQ(found, part.box.count()) << t.label();
      if (found != part.box.count()) return index.opened();
    }
  }
  return index.opened();
}

TEST(RestartPlan, ARankOfAnotherMeshOpensFewOf4096Files) {
  const base::Extents written{1, 512, 8};
  for (const std::string recipe : {"delayed", "block"}) {
    const deck::Config saved = large_deck(recipe, written);
    const auto opened_by = [&](const base::Extents& mesh, int rank) {
      const std::clock_t began = std::clock();
      const std::size_t opened = plan_restart(saved, large_deck(recipe, mesh), rank);
      EXPECT_LT(seconds_since(began), 5) << recipe;

      return opened;
    };
    EXPECT_LE(opened_by(written, 8 * 77 + 5), 3U) << recipe;  // its own file, rank 0's, that of tensor rank 0
    EXPECT_LE(opened_by({2, 256, 8}, 8 * 300 + 3), 12U) << recipe;
    EXPECT_LE(opened_by({1, 384, 4}, 4 * 191 + 2), 40U) << recipe;
    EXPECT_LE(opened_by({1, 1024, 2}, 2 * 1000), 40U) << recipe;
  }
}

TEST(RestartPlan, TheManifestOf4096RanksIsSmall) {
  const deck::Config saved = large_deck("block", {1, 512, 8});
  checkpoint::Manifest m;
  m.program = "shard8 test";
  m.git_hash = "none";
  m.run = "0123456789abcdef";
  m.mesh = {1, 512, 8};
  const SimulatedRank first(saved, 0);
  for (const StateTensor& t : first.tensors)
    m.tensors.push_back({t.name, std::string(checkpoint::name_of(t.content)), t.dtype, t.extents()});
  constexpr std::uint64_t kLargest = std::uint64_t{1} << 40;
  for (int r = 0; r < 4096; ++r)
    m.files.push_back(
        {checkpoint::rank_file(r), kLargest, kLargest / 2, 1 << 20, std::string(32, 'a'), std::string(32, 'b')});
  const std::string text = checkpoint::manifest_text(m);
  EXPECT_LT(text.size(), std::size_t{10} << 20);
  const std::clock_t began = std::clock();
  EXPECT_EQ(checkpoint::parse_manifest(text, "manifest.json"), m);
  EXPECT_LT(seconds_since(began), 5);
}

}  // namespace
}  // namespace shard8::train
