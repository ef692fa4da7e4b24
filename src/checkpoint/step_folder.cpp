// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/directory.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "base/error.hpp"
#include "base/text.hpp"
#include "checkpoint/manifest.hpp"
#include "deck/config.hpp"
#include "io/file.hpp"

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

namespace {

std::string reason(int error) { return std::generic_category().message(error); }

[[noreturn]] void cannot_write(const std::string& path, const std::string& operation, int error) {
  base::fail(base::ExitCode::environment,
             "'{}': cannot {}: {}; set checkpoint.dir to a folder that can be written to and has room", path, operation,
             reason(error));
}

bool is_numbered(const std::string& name, std::string_view before, std::string_view after) {
  if (!name.starts_with(before) || !name.ends_with(after) || name.size() <= before.size() + after.size()) return false;
  const auto digits = std::string_view(name).substr(before.size(), name.size() - before.size() - after.size());
  return digits.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

Kind kind_of(const std::string& path, bool follow) {
  struct stat status = {};
  const int result = follow ? ::stat(path.c_str(), &status) : ::lstat(path.c_str(), &status);
  if (result == 0) return S_ISDIR(status.st_mode) ? Kind::folder : Kind::other;
  if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP) return Kind::none;
  base::fail(base::ExitCode::checkpoint, "'{}': cannot examine it: {}; checkpoint.dir must be readable", path,
             reason(errno));
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (auto it = std::filesystem::directory_iterator(folder, error);
       !error && it != std::filesystem::directory_iterator(); it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    base::fail(base::ExitCode::checkpoint, "'{}': cannot list the folder: {}; checkpoint.dir must be a readable folder",
               folder, error.message());
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool is_file_of_checkpoint(const std::string& name) {
  return name == kManifestFile || name == io::temporary_of(std::string(kManifestFile)) ||
         is_numbered(name, "shard_r", ".h5") || is_numbered(name, "node_n", ".h5");
}

void make_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0777) != 0) cannot_write(path, "make the folder", errno);
}

void rename_to(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) cannot_write(from, "rename it to '" + to + "'", errno);
}

void remove_file(const std::string& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) cannot_write(path, "remove it", errno);
}

void remove_step_folder(const std::string& path) {
  if (kind_of(path, false) == Kind::other && kind_of(path, true) == Kind::folder) return remove_file(path);  // a link
  auto names = names_in(path);
  // Without its manifest, a folder that is only half removed is not taken for a checkpoint.
  std::stable_partition(names.begin(), names.end(), [](const std::string& name) { return name == kManifestFile; });
  std::string foreign;
  for (const std::string& name : names) {
    const std::string file = path + "/" + name;
    if (is_file_of_checkpoint(name) && kind_of(file, false) != Kind::folder) {
      remove_file(file);
    } else if (foreign.empty()) {
      foreign = name;
    }
  }
  if (!foreign.empty()) {
    base::fail(base::ExitCode::environment,
               "'{}': holds '{}', which is no file of a checkpoint: the folder stays; move that elsewhere and remove "
               "the folder",
               path, base::quotable(foreign));
  }
  if (::rmdir(path.c_str()) != 0 && errno != ENOENT) cannot_write(path, "remove the folder", errno);
}

}  // namespace shard8::checkpoint
