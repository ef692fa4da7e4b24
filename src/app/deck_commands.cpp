// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "app/commands.hpp"
#include "app/device.hpp"
#include "app/process.hpp"
#include "app/refusals.hpp"
#include "base/arithmetic.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/plain_file.hpp"
#include "base/text.hpp"
#include "deck/device.hpp"
#include "deck/fields.hpp"
#include "deck/layout.hpp"
#include "deck/load.hpp"
#include "deck/overlap.hpp"
#include "machine/machine.hpp"
#include "train/checkpoints.hpp"
#include "train/plan/plan.hpp"
#include "train/training_file.hpp"

namespace shard8::app {

namespace fs = std::filesystem;

void warn(const std::string& text) { base::print_coloured(fmt::format("shard8: warning: {}\n", text), stderr); }

void print_warnings(const deck::LoadResult& deck) {
  for (const std::string& text : deck.warnings) base::print_coloured(text, stderr);
  const deck::Config& c = deck.config;
  // Where the deck says hosts, its user knows that nothing runs on a device.
  const bool said = c.mesh.device != deck::Device::automatic;
  if (said || deck::on_device(c.mesh) || !c.overlap.enable) return;
  for (const profile::Exchange exchange : profile::kExpertExchanges)
    if (c.mesh.expert > 1 && c.overlap.methods[exchange] == profile::ExchangeMethod::pipeline)
      warn(fmt::format(
          "overlap.{} = pipeline has no effect: this program was built for hosts, which send rows by messages",
          name_of(exchange)));
  if (!c.mesh.exchanges()) {
    if (c.mesh.expert > 1)
      warn(
          "overlap.enable = true has no effect: this program was built for hosts, which send rows of experts by "
          "messages");
    return;
  }
  const auto no_effect = [](std::string_view key, std::int64_t value) {
    warn(fmt::format(
        "overlap.{} = {} has no effect: this program was built for hosts, which multiply the tokens of each "
        "rank on their own",
        key, value));
  };
  if (c.overlap.splits > 0 && c.mesh.tensor > 2) no_effect("splits", c.overlap.splits);
  if (c.overlap.chunks > 0) no_effect("chunks", c.overlap.chunks);
}

void check_methods(const std::string& path, const deck::LoadResult& deck) {
  if (!deck::on_device(deck.config.mesh)) return;
  std::string problems;
  for (const profile::Exchange exchange : deck::exchanges_with(deck.config, profile::ExchangeMethod::ring))
    problems += fmt::format(
        "{0}{1}: error: overlap.{2} = ring, but this program was built for CUDA devices, and a ring passes tokens on "
        "between hosts: set overlap.{2} to {3}",
        problems.empty() ? "" : "\n", path, name_of(exchange), name_of(deck::method_of_auto(exchange)));
  if (!problems.empty()) base::fail(base::ExitCode::deck, "{}", problems);
}

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

std::vector<std::int64_t> swept_experts(const deck::Config& config, const DeckArguments& arguments,
                                        std::span<const std::string> vary) {
  const auto sets = [](const std::string& setting) { return setting.starts_with("mesh.expert="); };
  const bool fixed = std::ranges::any_of(arguments.overrides, sets) || std::ranges::any_of(vary, sets);
  if (config.model.moe.experts == 0 || fixed) return {};
  return base::divisors_of(config.model.moe.experts);
}

deck::Config config_on(const base::Extents& mesh, bool experts, const DeckArguments& arguments, const std::string& text,
                       std::span<const std::string> more) {
  std::vector<std::string> overrides = arguments.overrides;
  overrides.insert(overrides.end(), more.begin(), more.end());
  for (const base::Axis axis : base::kAxes) overrides.push_back(fmt::format("mesh.{}={}", name_of(axis), mesh[axis]));
  if (experts) overrides.push_back(fmt::format("mesh.expert={}", mesh.expert));
  return deck::load_text(text, arguments.path, overrides).config;
}

namespace {

/// The folders and files that a run of this deck writes, a line "KEY PATH" for each. Names of output.dir cannot hold a
/// newline: decks allow no control characters.
std::string files_of(const deck::Config& config) {
  std::string text = fmt::format("output.dir {}\n", config.output.dir);
  for (const deck::WrittenFile& file : deck::written_files(config)) {
    const int files = file.is_trace() ? static_cast<int>(config.mesh.ranks()) : 1;
    for (int rank = 0; rank < files; ++rank) {
      const std::string name = file.is_trace() ? base::rank_file_name(file.name, rank) : file.name;
      text += fmt::format("{} {}\n", file.key, (fs::path(config.output.dir) / name).string());
    }
  }
  if (const std::string folder = train::checkpoint_folder(config); !folder.empty())
    text += fmt::format("checkpoint.dir {}\n", folder);
  return text;
}

/// What the checkpoints of a deck need and have.
struct CheckpointRoom {
  std::uint64_t bytes = 0;            ///< of the tensors of one checkpoint
  std::int64_t kept = 0;              ///< the most checkpoints that are there at once, one that is written included
  std::optional<std::uint64_t> free;  ///< of the folder's file system; none if it cannot be found
  std::string file_system;            ///< the folder that `free` was read of: the nearest that exists
  std::uint64_t copies = 0;           ///< host memory of a rank for copies of the state

  std::uint64_t needed() const { return bytes * static_cast<std::uint64_t>(kept); }
  bool short_of_room() const { return free && *free < needed(); }
};

std::string gb(std::uint64_t bytes) { return fmt::format("{:.3g} GB", 1e-9 * static_cast<double>(bytes)); }

/// The folder, or the nearest above it that exists.
std::string existing(const std::string& folder) {
  std::error_code ignored;
  fs::path path = fs::absolute(folder, ignored);
  while (!fs::is_directory(path, ignored) && path != path.parent_path()) path = path.parent_path();
  return path.string();
}

CheckpointRoom checkpoint_room(const deck::Config& config) {
  const train::Setup setup = train::Setup::make(config, 0, std::max(1, threads_from_environment()));
  train::State state(setup, tensor::ArenaSet::measure());
  const auto bytes = train::checkpoint_bytes(setup, state);
  CheckpointRoom room;
  room.bytes = bytes.state;
  room.kept = config.checkpoint.keep + 1;  // the oldest is removed when the newest is complete
  room.copies = bytes.copies;
  room.file_system = existing(config.checkpoint.dir);
  struct statvfs found {};
  if (::statvfs(room.file_system.c_str(), &found) == 0)
    room.free = static_cast<std::uint64_t>(found.f_bavail) * found.f_frsize;
  return room;
}

/// Prints the lines of `check` on the room that checkpoints need and have, and a warning to standard error if the file
/// system has less than they need. Prints nothing for a deck whose runs write none.
void print_checkpoint_room(const deck::Config& config) {
  const deck::CheckpointConfig& c = config.checkpoint;
  if (c.dir.empty()) return;
  const CheckpointRoom room = checkpoint_room(config);
  fmt::print("room       {} a checkpoint, {} at once ({} kept, one written): {}; free in {}: {}\n", gb(room.bytes),
             room.kept, c.keep, gb(room.needed()), room.file_system, room.free ? gb(*room.free) : "not known");
  const bool on_device = deck::on_device(config.mesh);
  fmt::print("           copies of the state: {} of {} a rank\n", (on_device ? "" : "at most ") + gb(room.copies),
             on_device ? "pinned host memory" : "host memory");
  if (room.short_of_room())
    base::print_coloured(
        fmt::format("warning: the {} of checkpoint.keep and one that is written take {} bytes, and the file system of "
                    "{} has {} free: make room, keep fewer, or set checkpoint.dir to another file system\n",
                    base::count(c.keep, "checkpoint", "checkpoints"), room.needed(), room.file_system, *room.free),
        stderr);
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

int plan_sweep(const PlanArguments& arguments, const deck::LoadResult& deck, int threads) {
  const std::int64_t ranks = arguments.deck.ranks.value_or(deck.config.mesh.ranks());
  const std::uint64_t most = arguments.fit.empty() ? 0 : bytes_of(arguments.fit, "shard8 plan: --fit");
  const std::string text = deck::read_deck_file(arguments.deck.path);
  const std::vector<std::int64_t> experts = swept_experts(deck.config, arguments.deck);
  const train::Sweep sweep = train::sweep_meshes(ranks, experts, most, threads, [&](const base::Extents& mesh) {
    return config_on(mesh, !experts.empty(), arguments.deck, text);
  });
  if (sweep.rows.empty())
    base::fail(
        base::ExitCode::deck,
        "shard8 plan: none of the meshes of {} is left: {} need more memory than --fit {} allows{}, {} do not go "
        "with the deck{}{}",
        base::count(ranks, "rank", "ranks"), sweep.too_large, arguments.fit.empty() ? "-" : arguments.fit,
        sweep.too_large == 0 ? ""
                             : fmt::format(" (the smallest need is {:.4g} GiB a rank)",
                                           static_cast<double>(sweep.least_left_out) / base::kGiB),
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
  at_stage(Stage::device, [&] { require_planned(deck.config); });
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

int machine_command(const std::string& path, const std::string& format) {
  fmt::print("{}", path.empty() ? machine::print_table(format) : machine::summary(machine::read(path)));
  return 0;
}

}  // namespace shard8::app
