// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <cstring>

#include "tensor/transfer.hpp"
#include "tests/train/decks.hpp"
#include "tests/train/training.hpp"
#include "train/state.hpp"

// The list of a run's persistent tensors is the same on every mesh and contains everything that a run needs to go on.

namespace shard8 {
namespace {

using checkpoint::StateTensor;
using test::Case;
using test::hashes_of;
using test::Training;

std::vector<StateTensor> tensors_of(Training& training) {
  return train::state_tensors(training.setup(), training.trainer().state());
}

/// Expects that ranks which hold the same boxes hold the same bits in them.
void expect_equal_copies(Training& training) {
  const auto tensors = tensors_of(training);
  const auto& mesh = training.mesh();
  for (const StateTensor& t : tensors) {
    const double hash = static_cast<double>(hash_parts(training.exec(), t) >> 11U);  // 53 bits, exact
    const auto expect_equal = [&](const comm::Communicator& group) {
      for (const double other : group.all_gather(std::span(&hash, 1)))
        EXPECT_EQ(other, hash) << t.label() << " in the group " << group.name();
    };
    const base::AxisSet copies = base::AxisSet::world - t.sharded;
    for (const base::Axis axis : base::kAxes)
      if (copies.contains(axis)) expect_equal(mesh.group(axis));
    if (t.sharded.empty()) expect_equal(mesh.world);
  }
}

std::vector<std::vector<std::byte>> bytes_of(Training& training) {
  std::vector<std::vector<std::byte>> all;
  for (const StateTensor& t : tensors_of(training))
    for (const auto& part : t.parts) {
      auto& bytes = all.emplace_back(part.local.bytes());
      if (t.in_host_memory)
        std::memcpy(bytes.data(), part.local.data, bytes.size());
      else
        tensor::to_host(training.exec(), bytes.data(), part.local);
    }
  return all;
}

void put(Training& training, const std::vector<std::vector<std::byte>>& all) {
  auto bytes = all.begin();
  for (const StateTensor& t : tensors_of(training))
    for (const auto& part : t.parts) {
      if (t.in_host_memory)
        std::memcpy(part.local.data, bytes->data(), bytes->size());
      else
        tensor::to_device(training.exec(), part.local, bytes->data());
      ++bytes;
    }
  ASSERT_EQ(bytes, all.end());
}

constexpr int kSteps = 4, kStop = 2;

/// Every recipe, each way to keep weights, masters and moments, on the meshes of as many ranks as there are.
std::vector<Case> cases() {
  std::vector<Case> all;
  int meshes = 0;
  for (const auto& mesh : test::kResumedMeshes) {
    for (const char* arch : {"llama", "gpt2"}) {
      test::Variant v;
      v.mesh = mesh;
      v.arch = arch;
      v.tied = mesh[1] == 2;
      if (test::ranks_of(v) == test::world_size()) all.push_back({test::name_of(v), test::small_deck(v, kSteps)});
    }
    int recipes = 0;
    ++meshes;
    for (const char* recipe : {"delayed", "current", "block", "mxfp8"}) {
      ++recipes;
      for (const bool other : {false, true}) {
        // On one rank both values of `other`; on a mesh one of them, which changes with the recipe and the mesh.
        if (test::world_size() > 1 && other != ((meshes + recipes) % 2 == 0)) continue;
        if (test::has_ranks_of(mesh))
          all.push_back(test::resumed_fp8_case(mesh, recipe, other ? "gpt2" : "llama", other, kSteps));
      }
    }
  }
  return all;
}

TEST(InitialState, IsTheSameOnEveryMesh) {
  ASSERT_FALSE(cases().empty());
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    deck::Config one = c.config;
    one.mesh.replicate = one.mesh.shard = one.mesh.tensor = 1;
    Training alone(one, MPI_COMM_SELF), here(c.config, MPI_COMM_WORLD);
    EXPECT_EQ(hashes_of(here), hashes_of(alone));
    expect_equal_copies(here);
  }
}

TEST(Resume, FromTheListedTensorsGoesOnBitForBit) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    Training first(c.config, MPI_COMM_WORLD);
    first.run(0, kStop);
    expect_equal_copies(first);
    const auto kept = bytes_of(first);
    const auto expected = first.run(kStop, kSteps - kStop);

    deck::Config other = c.config;
    other.model.init_seed += 1;
    Training second(other, MPI_COMM_WORLD);
    put(second, kept);
    const auto results = second.run(kStop, kSteps - kStop);
    for (std::size_t i = 0; i < results.size(); ++i) {
      EXPECT_EQ(results[i].loss, expected[i].loss) << "step " << expected[i].step;
      EXPECT_EQ(results[i].gradient_norm, expected[i].gradient_norm) << "step " << expected[i].step;
    }
    EXPECT_EQ(hashes_of(second), hashes_of(first));
  }
}

}  // namespace
}  // namespace shard8
