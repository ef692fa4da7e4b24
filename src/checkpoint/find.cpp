// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/directory.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "base/error.hpp"
#include "checkpoint/step_folder.hpp"
#include "deck/config.hpp"

namespace shard8::checkpoint {

namespace {

namespace fs = std::filesystem;

/// The path without "/" at its end.
fs::path trimmed(const std::string& path) {
  const fs::path all(path);
  return all.has_filename() ? all : all.parent_path();
}

std::string inside(const std::string& path) { return (fs::path(path) / deck::CheckpointConfig::kDefaultDir).string(); }

}  // namespace

bool is_checkpoint(const std::string& path) {
  if (kind_of(path, true) != Kind::folder) return false;
  return kind_of(fmt::format("{}/{}", path, kManifestFile), true) != Kind::none ||
         step_of(trimmed(path).filename().string()).has_value();
}

bool names_checkpoints(const std::string& path) {
  return is_checkpoint(path) || !Directory(path).steps().empty() || !Directory(inside(path)).steps().empty();
}

Directory directory_at(const std::string& path) {
  const Kind kind = kind_of(path, true);
  if (kind != Kind::folder)
    base::fail(base::ExitCode::checkpoint,
               "'{}': {}, so there are no checkpoints here: give the folder of one ({}), of several, or the output.dir "
               "of a run",
               path, kind == Kind::none ? "is not there" : "is no folder", step_name(1200));
  for (const std::string& folder : {path, inside(path)})
    if (Directory directory(folder); !directory.steps().empty()) return directory;
  if (is_checkpoint(path))
    base::fail(base::ExitCode::checkpoint, "'{}': is one checkpoint: show or verify it, or give the folder of several",
               path);
  base::fail(base::ExitCode::checkpoint,
             "'{}': there are no checkpoints here: give the folder of one ({}), of several, or the output.dir of a run",
             path, step_name(1200));
}

Directory::Scan scan_and_say(const Directory& directory, const std::function<void(const std::string&)>& say) {
  Directory::Scan scan = directory.scan();
  for (const auto& bad : scan.unusable)
    say(fmt::format("checkpoint {} cannot be used: {}", directory.folder_of(bad.step), bad.why));
  return scan;
}

Checkpoint open_checkpoint(const std::string& path, const std::function<void(const std::string&)>& say) {
  if (is_checkpoint(path)) {
    const fs::path folder = trimmed(path);
    if (const auto step = step_of(folder.filename().string())) {
      const fs::path parent = folder.has_parent_path() ? folder.parent_path() : fs::path(".");
      return {folder.string(), Directory(parent.string()).open(*step)};
    }
    return {folder.string(), read_manifest(folder.string())};
  }
  const Directory directory = directory_at(path);
  const Directory::Scan scan = scan_and_say(directory, say);
  if (scan.usable.empty())
    base::fail(base::ExitCode::checkpoint, "'{}': none of the {} checkpoints here can be used; copy one again",
               directory.path(), scan.unusable.size());
  const std::int64_t step = scan.usable.front().step;
  return {directory.folder_of(step), directory.open(step)};
}

}  // namespace shard8::checkpoint
