// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
//
// usage: restored_hashes DECK CHECKPOINT [group.key=value...]
//
// Loads a checkpoint on the deck's mesh and prints the hash of each persistent tensor, the same on every mesh and kind
// of machine: two outputs that are equal show that two programs loaded the same bits. Exit code 77 where there are
// fewer devices than ranks.
#include <fmt/format.h>
#include <mpi.h>

#include <cstdio>
#include <optional>

#include "base/error.hpp"
#include "tests/support/execution.hpp"
#include "tests/support/mpi_program.hpp"
#include "tests/train/training.hpp"
#include "train/checkpoints.hpp"

#if defined(SHARD8_CUDA)
#include "tests/support/rank_device.hpp"
#endif

namespace shard8::test {
namespace {

int print_hashes(const std::string& deck, std::vector<std::string> overrides, MPI_Comm comm) {
  const deck::LoadResult loaded = deck::load(deck, overrides);
  Training training(loaded.config, comm);
  const comm::Communicator& world = training.mesh().world;
  const train::Say say = [](const std::string& text) { fmt::print(stderr, "{}\n", text); };
  train::RunDescription run{"restored_hashes", "", {}};
  const auto points = train::find_restart(loaded.config, {}, world, run, say);
  train::restore(points, training.assembly(), run, say);
  const auto hashes = hashes_of(training);
  if (world.rank() == 0)
    for (const Hashed& one : hashes) fmt::print("{:016x}  {}\n", one.hash, one.label);
  return 0;
}

int run(int argc, char** argv, MPI_Comm comm) {
  if (argc < 3) {
    std::fputs("usage: restored_hashes DECK CHECKPOINT [group.key=value...]\n", stderr);
    return 2;
  }
  std::optional<int> device = 0;
#if defined(SHARD8_CUDA)
  device = tests::rank_device(comm);
#endif
  if (!device) return 77;
  const tests::Execution execution(*device);
  std::vector<std::string> overrides(argv + 3, argv + argc);
  overrides.push_back(std::string("checkpoint.restart=") + argv[2]);
  try {
    return print_hashes(argv[1], std::move(overrides), comm);
  } catch (const base::Error& e) {
    fmt::print(stderr, "restored_hashes: {}\n", e.what());
    MPI_Abort(MPI_COMM_WORLD, base::to_int(e.code()));
    return 1;
  }
}

}  // namespace
}  // namespace shard8::test

int main(int argc, char** argv) { return shard8::tests::mpi_program(argc, argv, shard8::test::run); }
