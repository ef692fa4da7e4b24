// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "base/error.hpp"
#include "checkpoint/find.hpp"
#include "checkpoint/reader.hpp"
#include "comm/agree.hpp"
#include "train/checkpoints.hpp"
#include "train/restart_deck.hpp"
#include "train/saved_shards.hpp"
#include "train/state_tensors.hpp"

namespace shard8::train {

using base::ExitCode;
using checkpoint::Manifest;
namespace fs = std::filesystem;

namespace {

/// What rank 0 finds: folders, best first.
struct Found {
  std::vector<std::string> folders;
  bool required = false;
};

void check_deck(const RestartPoint& point, const deck::Config& config, const RunDescription& run) {
  refuse_changes(deck_changes(point.manifest.deck, run.deck), config.checkpoint.allow_changes, point.folder);
  const auto decay = saved_decay(point.manifest.deck, run.deck);
  if (decay && config.optimizer.warmup >= *decay)
    base::fail(ExitCode::checkpoint,
               "optimizer.warmup = {} is not less than {}, the decay_steps of checkpoint {}: set optimizer.decay_steps",
               config.optimizer.warmup, *decay, point.folder);
}

/// The tensors without those that Trainer::start() makes from the masters.
std::vector<checkpoint::StateTensor> without_fp8(std::vector<checkpoint::StateTensor> tensors) {
  std::erase_if(tensors,
                [](const checkpoint::StateTensor& t) { return t.content >= checkpoint::Content::fp8_rowwise; });
  return tensors;
}

std::vector<std::string> remarks_of(const RestartPoint& point, const RunDescription& run, bool starts_fp8) {
  std::vector<std::string> remarks;
  for (const DeckChange& change : deck_changes(point.manifest.deck, run.deck))
    remarks.push_back("changed    " + text_of(change));
  if (starts_fp8)
    remarks.emplace_back("converted  weights in FP8 are cast from the masters; scales and histories begin anew");
  if (point.decay_steps)
    remarks.push_back(
        fmt::format("schedule   decays over {} steps, as in the checkpoint; set optimizer.decay_steps to change it",
                    *point.decay_steps));
  return remarks;
}

Found find(const deck::Config& config, const std::string& own_folder, const Say& say) {
  const std::string& restart = config.checkpoint.restart;
  if (restart == deck::CheckpointConfig::kNoRestart) return {};
  const bool automatic = restart == deck::CheckpointConfig::kAutoRestart;
  if (automatic && own_folder.empty()) return {};
  Found found{{}, !automatic};
  if (!automatic && checkpoint::is_checkpoint(restart)) {
    found.folders.push_back(restart);
    return found;
  }
  const checkpoint::Directory directory =
      automatic ? checkpoint::Directory(own_folder) : checkpoint::directory_at(restart);
  const auto scan = checkpoint::scan_and_say(directory, say);
  for (const auto& good : scan.usable) found.folders.push_back(directory.folder_of(good.step));
  if (found.folders.empty() && (!automatic || !scan.unusable.empty()))
    base::fail(ExitCode::checkpoint,
               "there is no checkpoint in {} that can be used{}: name another in checkpoint.restart, or set it to none "
               "to start anew",
               directory.path(), scan.unusable.empty() ? "" : " (see the warnings above)");
  return found;
}

/// Reads a manifest on rank 0 and gives it to all ranks.
RestartPoint open_point(const comm::Communicator& world, const std::string& folder) {
  std::string text;
  comm::agree_on_root(world, 0, [&] { text = checkpoint::read_manifest_text(folder); });
  world.broadcast(text, 0);
  RestartPoint point;
  point.folder = folder;
  comm::agree(world, [&] { point.manifest = checkpoint::parse_manifest(text, folder + "/manifest.json"); });
  return point;
}

comm::MeshShape mesh_of(const Manifest& m) {
  return {static_cast<int>(m.replicate), static_cast<int>(m.shard), static_cast<int>(m.tensor)};
}

}  // namespace

std::string checkpoint_folder(const deck::Config& config, const comm::Communicator& world) {
  const deck::CheckpointConfig& c = config.checkpoint;
  if (!c.dir.empty() || c.restart != deck::CheckpointConfig::kAutoRestart) return c.dir;
  std::string folder;
  comm::agree_on_root(world, 0, [&] {
    const fs::path usual = fs::path(config.output.dir) / deck::CheckpointConfig::kDefaultDir;
    if (fs::is_directory(usual)) folder = usual.string();
  });
  world.broadcast(folder, 0);
  return folder;
}

RestartPoints find_restart(const deck::Config& config, const std::string& folder, const comm::Communicator& world,
                           const RunDescription& run, const Say& say) {
  Found found;
  comm::agree_on_root(world, 0, [&] { found = find(config, folder, say); });
  std::string list = found.required ? "1" : "0";
  for (const std::string& one : found.folders) list += '\n' + one;
  world.broadcast(list, 0);
  RestartPoints restart;
  restart.required = list[0] == '1';
  for (std::size_t at = 1; at < list.size();) {
    const std::size_t end = std::min(list.find('\n', at + 1), list.size());
    restart.others.push_back(list.substr(at + 1, end - at - 1));
    at = end;
  }
  if (restart.others.empty()) return restart;
  restart.first = open_point(world, restart.others.front());
  restart.others.erase(restart.others.begin());
  comm::agree(world, [&] { check_deck(*restart.first, config, run); });
  return restart;
}

std::optional<RestartPoint> restore(const RestartPoints& restart, Assembly& assembly, const RunDescription& run,
                                    const Say& say) {
  if (!restart.first) return std::nullopt;
  const comm::Communicator& world = assembly.mesh().world;
  const auto all = state_tensors(assembly.setup(), assembly.trainer().state());
  std::optional<RestartPoint> point = restart.first;
  for (auto next = restart.others.begin();; ++next) {
    try {
      if (!point) point = open_point(world, *std::prev(next));
      const bool starts_fp8 =
          assembly.setup().weights.recipe.on() && changes_fp8(deck_changes(point->manifest.deck, run.deck));
      const auto tensors = starts_fp8 ? without_fp8(all) : all;
      comm::agree(world, [&] {
        check_deck(*point, assembly.setup().config, run);
        checkpoint::Reader reader(point->folder, point->manifest,
                                  likely_ranks(assembly.setup(), mesh_of(point->manifest)));
        reader.require(tensors);
        reader.restore(assembly.exec(), tensors);
        reader.verify_rest(world.rank(), world.size());
      });
      if (starts_fp8) assembly.trainer().start();
      point->decay_steps = saved_decay(point->manifest.deck, run.deck);
      if (point->decay_steps) assembly.set_decay_steps(*point->decay_steps);
      point->remarks = remarks_of(*point, run, starts_fp8);
      return point;
    } catch (const comm::AgreedError& e) {
      if (restart.required || e.code() != ExitCode::checkpoint || next == restart.others.end()) throw;
      if (world.rank() == 0) say(fmt::format("{}\n  going on from the checkpoint before it, {}", e.what(), *next));
      point.reset();
    }
  }
}

}  // namespace shard8::train
