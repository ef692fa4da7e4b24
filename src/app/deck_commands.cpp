// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "app/checkpoint_room.hpp"
#include "app/commands.hpp"
#include "app/process.hpp"
#include "base/error.hpp"
#include "deck/layout.hpp"
#include "deck/load.hpp"
#include "deck/table.hpp"
#include "io/io_thread.hpp"
#include "tensor/exec.hpp"
#include "train/initial_weights.hpp"
#include "train/plan/plan.hpp"

namespace shard8::app {

void print_warnings(const deck::LoadResult& deck) {
  for (const std::string& text : deck.warnings) std::fputs(text.c_str(), stderr);  // failing to write is no error
  const deck::Config& c = deck.config;
  // Where the deck does not say hosts, only the build does.
  if (!tensor::kDevice && c.mesh.device == deck::Device::automatic && c.overlap.enable && c.overlap.splits > 0 &&
      c.mesh.tensor > 2)
    fmt::print(stderr,
               "shard8: warning: overlap.splits = {} has no effect: this program was built for hosts, which multiply "
               "the tokens of each rank on their own\n",
               c.overlap.splits);
}

namespace {

/// Reads the deck for arguments.ranks. Error(environment) if its mesh has another number of ranks.
deck::LoadResult load_for_ranks(const DeckArguments& arguments) {
  deck::LoadResult deck = deck::load(arguments.path, arguments.overrides, arguments.ranks);
  const deck::MeshConfig& mesh = deck.config.mesh;
  if (arguments.ranks && *arguments.ranks != mesh.ranks())
    base::fail(base::ExitCode::environment,
               "the deck's mesh has {} ranks (replicate {} × shard {} × tensor {}), not {}: leave --ranks out, change "
               "the mesh group, or set mesh.shard to auto",
               mesh.ranks(), mesh.replicate, mesh.shard, mesh.tensor, *arguments.ranks);
  return deck;
}

}  // namespace

int check_command(const DeckArguments& arguments, bool ranks_only) {
  const auto deck = load_for_ranks(arguments);
  if (ranks_only) {
    if (deck.ranks_open)
      base::fail(base::ExitCode::deck,
                 "{}: error: mesh.shard = auto leaves the number of ranks to the launcher: start the program under "
                 "mpiexec -n N or srun -n N, or give mesh.shard a number (mesh.shard=N)",
                 arguments.path);
    fmt::print("{}\n", deck.config.mesh.ranks());
    return 0;
  }
  print_warnings(deck);
  if (!deck.config.model.init_file.empty()) {
    io::IoThread io;
    train::open_initial_weights(io, deck.config.model,
                                [](const std::string& text) { fmt::print(stderr, "shard8: warning: {}\n", text); });
  }
  fmt::print("{}: good\n{}", arguments.path, deck::describe(deck.config));
  print_checkpoint_room(deck.config);
  return 0;
}

int plan_command(const DeckArguments& arguments) {
  const auto deck = load_for_ranks(arguments);
  print_warnings(deck);
  fmt::print("{}", train::to_text(train::make_plan(deck.config, std::max(1, threads_from_environment())), deck.config));
  return 0;
}

int deck_command(const std::string& group, const std::string& format) {
  fmt::print("{}", deck::print_table(format, group));
  return 0;
}

}  // namespace shard8::app
