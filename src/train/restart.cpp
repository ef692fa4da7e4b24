// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <map>
#include <string_view>

#include "base/error.hpp"
#include "checkpoint/find.hpp"
#include "checkpoint/reader.hpp"
#include "comm/agree.hpp"
#include "train/checkpoints.hpp"
#include "train/saved_shards.hpp"
#include "train/state_tensors.hpp"

namespace shard8::train {

using base::ExitCode;
using checkpoint::Manifest;
using checkpoint::ManifestKey;
namespace fs = std::filesystem;

bool may_change_at_restart(const std::string& key) {
  constexpr std::array<std::string_view, 6> kGroups = {"mesh.", "fsdp.", "run.", "checkpoint.", "verify.", "output."};
  constexpr std::array<std::string_view, 5> kKeys = {"model.init_file", "model.recompute", "precision.deterministic",
                                                     "data.path", "data.micro_batch"};
  return std::find(kKeys.begin(), kKeys.end(), key) != kKeys.end() ||
         std::any_of(kGroups.begin(), kGroups.end(), [&](std::string_view group) { return key.starts_with(group); });
}

std::string deck_differences(const std::vector<ManifestKey>& saved, const std::vector<ManifestKey>& now) {
  std::map<std::string, std::string> before;
  for (const ManifestKey& k : saved) before[k.key] = k.value;
  std::string text;
  for (const ManifestKey& k : now) {
    const auto found = before.find(k.key);
    if (found == before.end() || found->second == k.value || may_change_at_restart(k.key)) continue;
    text += fmt::format("\n  {}: {} in the checkpoint, {} in this deck", k.key,
                        found->second.empty() ? "\"\"" : found->second, k.value.empty() ? "\"\"" : k.value);
  }
  return text;
}

namespace {

/// What rank 0 finds: folders, best first.
struct Found {
  std::vector<std::string> folders;
  bool required = false;
};

void refuse_changes(const RestartPoint& point, const deck::Config& config, const RunDescription& run) {
  if (config.checkpoint.allow_changes) return;
  const std::string differences = deck_differences(point.manifest.deck, run.deck);
  if (differences.empty()) return;
  base::fail(ExitCode::checkpoint,
             "checkpoint {} was written with another deck:{}\n  to train on all the same, set checkpoint.allow_changes "
             "to true; to start anew, set checkpoint.restart to none and checkpoint.dir to another folder",
             point.folder, differences);
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
  const auto scan = directory.scan();
  for (const auto& bad : scan.unusable)
    say(fmt::format("checkpoint {} cannot be used: {}", directory.folder_of(bad.step), bad.why));
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
  RestartPoint point{folder, {}};
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
  comm::agree(world, [&] { refuse_changes(*restart.first, config, run); });
  return restart;
}

std::optional<RestartPoint> restore(const RestartPoints& restart, Assembly& assembly, const RunDescription& run,
                                    const Say& say) {
  if (!restart.first) return std::nullopt;
  const comm::Communicator& world = assembly.mesh().world;
  const auto tensors = state_tensors(assembly.setup(), assembly.trainer().state());
  std::optional<RestartPoint> point = restart.first;
  for (auto next = restart.others.begin();; ++next) {
    try {
      if (!point) point = open_point(world, *std::prev(next));
      comm::agree(world, [&] {
        refuse_changes(*point, assembly.setup().config, run);
        checkpoint::Reader reader(point->folder, point->manifest,
                                  likely_ranks(assembly.setup(), mesh_of(point->manifest)));
        reader.require(tensors);
        reader.restore(assembly.exec(), tensors);
        reader.verify_rest(world.rank(), world.size());
      });
      return point;
    } catch (const comm::AgreedError& e) {
      if (restart.required || e.code() != ExitCode::checkpoint || next == restart.others.end()) throw;
      if (world.rank() == 0) say(fmt::format("{}\n  going on from the checkpoint before it, {}", e.what(), *next));
      point.reset();
    }
  }
}

}  // namespace shard8::train
