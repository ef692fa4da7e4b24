// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "app/checkpoint_room.hpp"
#include "app/commands.hpp"
#include "app/process.hpp"
#include "deck/layout.hpp"
#include "deck/load.hpp"
#include "deck/table.hpp"
#include "io/io_thread.hpp"
#include "train/initial_weights.hpp"
#include "train/plan/plan.hpp"

namespace shard8::app {

void print_warnings(const deck::LoadResult& deck) {
  for (const std::string& text : deck.warnings) std::fputs(text.c_str(), stderr);  // failing to write is no error
}

int check_command(const DeckArguments& arguments, bool ranks_only) {
  const auto deck = deck::load(arguments.path, arguments.overrides);
  if (ranks_only) {
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
  const auto deck = deck::load(arguments.path, arguments.overrides);
  print_warnings(deck);
  fmt::print("{}", train::to_text(train::make_plan(deck.config, std::max(1, threads_from_environment())), deck.config));
  return 0;
}

int convert_command(const DeckArguments& arguments, const std::string& to) {
  const auto spelling = to == "nml" ? deck::Spelling::namelist : deck::Spelling::yaml;
  fmt::print("{}", deck::convert(arguments.path, arguments.overrides, spelling));
  return 0;
}

int deck_command(const std::string& group, const std::string& format) {
  fmt::print("{}", deck::print_table(format, group));
  return 0;
}

}  // namespace shard8::app
