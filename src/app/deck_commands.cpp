// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "app/checkpoint_room.hpp"
#include "app/commands.hpp"
#include "app/device.hpp"
#include "app/process.hpp"
#include "app/refusals.hpp"
#include "app/sizes.hpp"
#include "app/start_checks.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "deck/layout.hpp"
#include "deck/load.hpp"
#include "deck/overlap.hpp"
#include "deck/table.hpp"
#include "operation/device.hpp"
#include "tensor/exec.hpp"
#include "train/checkpoints.hpp"
#include "train/plan/plan.hpp"
#include "train/plan/sweep.hpp"
#include "train/training_file.hpp"

namespace shard8::app {

void print_warnings(const deck::LoadResult& deck) {
  for (const std::string& text : deck.warnings) base::print_coloured(text, stderr);
  const deck::Config& c = deck.config;
  // Where the deck does not say hosts, only the build does.
  if (tensor::kDevice || c.mesh.device != deck::Device::automatic || !c.overlap.enable || !c.mesh.exchanges()) return;
  const auto warn = [](std::string_view key, std::int64_t value) {
    base::print_coloured(
        fmt::format("shard8: warning: overlap.{} = {} has no effect: this program was built for hosts, which multiply "
                    "the tokens of each rank on their own\n",
                    key, value),
        stderr);
  };
  if (c.overlap.splits > 0 && c.mesh.tensor > 2) warn("splits", c.overlap.splits);
  if (c.overlap.chunks > 0) warn("chunks", c.overlap.chunks);
}

void check_methods(const std::string& path, const deck::LoadResult& deck) {
  if (!operation::on_device(deck.config.mesh)) return;
  std::string problems;
  for (const profile::Exchange exchange : deck::exchanges_with(deck.config, profile::ExchangeMethod::ring))
    problems += fmt::format(
        "{0}{1}: error: overlap.{2} = ring, but this program was built for CUDA devices, and a ring passes tokens on "
        "between hosts: set overlap.{2} to {3}",
        problems.empty() ? "" : "\n", path, name_of(exchange), name_of(deck::method_of_auto(exchange)));
  if (!problems.empty()) base::fail(base::ExitCode::deck, "{}", problems);
}

namespace {

/// Reads the deck for arguments.ranks. Error(deck) if its mesh has another number of ranks; `others` ends the message
/// with what else the command offers.
deck::LoadResult load_for_ranks(const DeckArguments& arguments, std::string_view command, std::string_view others) {
  deck::LoadResult deck = deck::load(arguments.path, arguments.overrides, arguments.ranks, train::has_used_restart);
  const deck::MeshConfig& mesh = deck.config.mesh;
  if (!arguments.ranks || *arguments.ranks == mesh.ranks()) return deck;
  const std::int64_t ranks = *arguments.ranks, not_sharded = mesh.replicate * mesh.tensor;
  const std::string remedy =
      ranks % not_sharded == 0
          ? fmt::format("set mesh.shard=auto, which is {} on {}", ranks / not_sharded,
                        base::count(ranks, "rank", "ranks"))
          : fmt::format("set mesh.replicate, mesh.shard and mesh.tensor so that their product is {}", ranks);
  base::fail(base::ExitCode::deck,
             "shard8 {}: --ranks is {}, but the deck's mesh has {} ({}): {}, or "
             "leave --ranks out{}",
             command, ranks, base::count(mesh.ranks(), "rank", "ranks"), named_text_of(mesh.extents(), " × "), remedy,
             others);
}

}  // namespace

namespace {

/// The folders and files that a run of this deck writes, a line "KEY PATH" for each. Names of output.dir cannot hold a
/// newline: decks allow no control characters.
std::string files_of(const deck::Config& config) {
  const deck::OutputConfig& output = config.output;
  std::string text = fmt::format("output.dir {}\n", output.dir);
  const auto add = [&](std::string_view key, const std::string& name) {
    if (!name.empty()) text += fmt::format("{} {}\n", key, (std::filesystem::path(output.dir) / name).string());
  };
  add("output.summary", output.summary);
  add("output.metrics", output.metrics);
  add("output.timing", output.timing);
  add("output.timing_ranks", output.timing_ranks);
  add("ranks", deck::OutputConfig::kRanks);
  add("training", train::TrainingFile::kName);
  if (const std::string folder = train::checkpoint_folder(config); !folder.empty())
    text += fmt::format("checkpoint.dir {}\n", folder);
  return text;
}

}  // namespace

int check_command(const CheckArguments& arguments) {
  const std::string& path = arguments.deck.path;
  const auto deck = load_for_ranks(arguments.deck, "check", "");
  if (arguments.files) {
    fmt::print("{}", files_of(deck.config));
    return 0;
  }
  if (arguments.ranks) {
    if (deck.ranks_open)
      base::fail(base::ExitCode::deck,
                 "{}: error: mesh.shard = auto leaves the number of ranks to the launcher: start the program under "
                 "mpiexec -n N or srun -n N, or give mesh.shard a number (mesh.shard=N)",
                 path);
    fmt::print("{}\n", deck.config.mesh.ranks());
    return 0;
  }
  check_methods(path, deck);
  print_warnings(deck);
  const std::string found = check_start(deck);
  fmt::print("{}: good\n{}{}", path, deck::describe(deck.config), found);
  print_checkpoint_room(deck.config);
  return 0;
}

namespace {

/// A line that says that the mesh has another number of ranks than that of the deck file; empty if it has not.
std::string other_ranks(const DeckArguments& arguments, std::int64_t ranks) {
  try {
    const std::int64_t of_deck = deck::load(arguments.path).config.mesh.ranks();
    if (of_deck != ranks)
      return fmt::format("note: {}, the deck itself has {}\n", base::count(ranks, "rank", "ranks"), of_deck);
  } catch (const base::Error&) {  // the deck alone is not usable: nothing to compare with
  }
  return {};
}

constexpr double kGiB = 1024.0 * 1024 * 1024;

int plan_sweep(const PlanArguments& arguments, const deck::LoadResult& deck, int threads) {
  const std::int64_t ranks = arguments.deck.ranks.value_or(deck.config.mesh.ranks());
  const std::uint64_t most = arguments.fit.empty() ? 0 : bytes_of(arguments.fit, "shard8 plan: --fit");
  const std::string text = deck::read_deck_file(arguments.deck.path);
  const train::Sweep sweep = train::sweep_meshes(ranks, most, threads, [&](const base::Extents& mesh) {
    std::vector<std::string> overrides = arguments.deck.overrides;
    for (const base::Axis axis : base::kAxes) overrides.push_back(fmt::format("mesh.{}={}", name_of(axis), mesh[axis]));
    return deck::load_text(text, arguments.deck.path, overrides).config;
  });
  if (sweep.rows.empty())
    base::fail(
        base::ExitCode::deck,
        "shard8 plan: none of the meshes of {} is left: {} need more memory than --fit {} allows{}, {} do not go "
        "with the deck{}{}",
        base::count(ranks, "rank", "ranks"), sweep.too_large, arguments.fit.empty() ? "-" : arguments.fit,
        sweep.too_large == 0 ? ""
                             : fmt::format(" (the smallest need is {:.4g} GiB a rank)",
                                           static_cast<double>(sweep.least_left_out) / kGiB),
        sweep.refused, sweep.why.empty() ? "; give a larger --fit or more --ranks" : "; the first:\n", sweep.why);
  if (arguments.json)
    fmt::print("{}\n", train::to_json(sweep));
  else
    fmt::print("{}{}", other_ranks(arguments.deck, ranks), train::to_text(sweep));
  return 0;
}

}  // namespace

int plan_command(const PlanArguments& arguments) {
  const DeckArguments& given = arguments.deck;
  const auto deck = arguments.sweep ? deck::load(given.path, given.overrides, given.ranks)
                                    : load_for_ranks(given, "plan", ", or list all meshes with --sweep");
  check_methods(given.path, deck);
  print_warnings(deck);
  at_stage(Stage::device, [&] { require_planned(deck.config.mesh); });
  const int threads = std::max(1, threads_from_environment());
  if (arguments.sweep) return plan_sweep(arguments, deck, threads);
  const train::Plan plan = train::make_plan(deck.config, threads);
  if (arguments.json)
    fmt::print("{}\n", train::to_json(plan, deck.config));
  else
    fmt::print("{}{}", other_ranks(arguments.deck, deck.config.mesh.ranks()), train::to_text(plan, deck.config));
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
