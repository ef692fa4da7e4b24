// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <cstring>

#include "tensor/transfer.hpp"
#include "tests/train/fp8_decks.hpp"
#include "tests/train/training.hpp"
#include "train/state_tensors.hpp"

// The list of a run's persistent tensors is the same on every mesh and contains everything that a run needs to go on.

namespace shard8 {
namespace {

using checkpoint::StateTensor;
using test::Training;

std::vector<StateTensor> tensors_of(Training& training) {
  return train::state_tensors(training.setup(), training.trainer().state());
}

struct Hashed {
  std::string label;
  std::uint64_t hash = 0;
  bool operator==(const Hashed&) const = default;
};
void PrintTo(const Hashed& h, std::ostream* out) { *out << h.label << ": " << h.hash; }

/// The hashes of all persistent tensors, each over the whole tensor. Collective over the mesh.
std::vector<Hashed> hashes_of(Training& training) {
  std::vector<Hashed> hashes;
  std::vector<std::uint64_t> sums;
  for (const StateTensor& t : tensors_of(training)) {
    hashes.push_back({t.label()});
    sums.push_back(t.counts(training.mesh().place) ? hash_parts(training.exec(), t) : 0);
  }
  MPI_Allreduce(MPI_IN_PLACE, sums.data(), static_cast<int>(sums.size()), MPI_UINT64_T, MPI_SUM,
                training.mesh().world.size() == 1 ? MPI_COMM_SELF : MPI_COMM_WORLD);
  for (std::size_t i = 0; i < sums.size(); ++i) hashes[i].hash = sums[i];
  return hashes;
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
    expect_equal(mesh.replicate);
    if (t.copies != checkpoint::Copies::replicas) expect_equal(mesh.tensor);
    if (t.copies == checkpoint::Copies::all_ranks) expect_equal(mesh.world);
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

struct Case {
  std::string name;
  deck::Config config;
};

constexpr int kSteps = 4, kStop = 2;

/// Every recipe, each way to keep weights, masters and moments, on the meshes of as many ranks as there are.
std::vector<Case> cases() {
  std::vector<Case> all;
  int meshes = 0;
  for (const auto& mesh : {std::array{1, 1, 1}, {1, 2, 1}, {1, 1, 2}, {2, 1, 1}, {1, 3, 1}, {1, 2, 2}, {2, 2, 1}}) {
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
        test::Fp8Variant v;
        // Block scales need 128 tokens of a micro-batch on each tensor rank: one sequence for each.
        const int batch = mesh[2] == 1 ? 2 : mesh[2] * mesh[0] * mesh[1];
        v.mesh = mesh;
        v.recipe = recipe;
        v.arch = mesh[2] == 2 || other ? "gpt2" : "llama";
        v.weights = other ? "bf16" : "fp8";
        if (test::ranks_of(v) != test::world_size()) continue;
        const bool delayed = recipe == std::string("delayed");
        all.push_back({test::name_of(v), test::fp8_deck(v, kSteps, 2, batch, delayed ? ", amax_history: 2" : "",
                                                        other ? ", master: bf16_remainder, moments: bf16" : "")});
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
